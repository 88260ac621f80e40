//! Components with one behaviour each; see `examples/`.
