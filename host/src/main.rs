//! The command line.

fn main() -> std::process::ExitCode {
    relaybus_host::cli::main()
}
