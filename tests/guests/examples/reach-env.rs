//! Looks at the environment and the arguments, and buries with what it found; finds nothing and ends well.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct ReachEnv;

impl Handler for ReachEnv {
    const NAME: &str = "reach-env";
    const TOPICS: &[&str] = &["reach-env.>"];

    fn handle(_: Delivery) -> Result {
        let found: Vec<_> = std::env::vars_os().map(|(name, _)| name).chain(std::env::args_os()).collect();
        if found.is_empty() { Ok(()) } else { Err(Failure::bury(format!("found {found:?}"))) }
    }
}

export!(ReachEnv);
