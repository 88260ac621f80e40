//! Tries to list, read and write files, and buries with what worked; nothing does, and it ends well.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct ReachFs;

impl Handler for ReachFs {
    const NAME: &str = "reach-fs";
    const TOPICS: &[&str] = &["reach-fs.>"];

    fn handle(_: Delivery) -> Result {
        let mut found = Vec::new();
        for folder in ["/", ".", "/tmp", "/etc"] {
            if std::fs::read_dir(folder).is_ok() {
                found.push(format!("listed {folder}"));
            }
            let file = format!("{folder}/relaybus-guest");
            if std::fs::write(&file, "x").is_ok() {
                found.push(format!("wrote {file}"));
            }
        }
        if std::fs::read("/etc/hostname").is_ok() {
            found.push("read /etc/hostname".to_owned());
        }
        if found.is_empty() { Ok(()) } else { Err(Failure::bury(found.join(", "))) }
    }
}

export!(ReachFs);
