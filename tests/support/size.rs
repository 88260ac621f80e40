//! The two sizes of a test: scaled down in the ordinary run, large in the full one. The code and the checks are
//! the same.

/// Asks for the full size, if it is `1`: `tests/run.sh --full` sets it.
pub const FULL_VARIABLE: &str = "RELAYBUS_TEST_FULL";

/// Whether this is a full run.
pub fn is_full() -> bool {
    std::env::var(FULL_VARIABLE).is_ok_and(|value| value == "1")
}

/// `ordinary`, or `full` in a full run.
pub fn pick<T>(ordinary: T, full: T) -> T {
    if is_full() { full } else { ordinary }
}
