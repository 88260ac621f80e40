//! Tries to look up a name, to connect to the address of the payload, `"127.0.0.1:5432"`, and to listen; buries with what worked.
//!
//! It imports `wasi:sockets`, so a host that does not serve those may refuse it when it is loaded.

use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct ReachNet;

impl Handler for ReachNet {
    const NAME: &str = "reach-net";
    const TOPICS: &[&str] = &["reach-net.>"];

    fn handle(delivery: Delivery) -> Result {
        let address = delivery.json::<String>()?;
        let mut found = Vec::new();
        if "localhost:80".to_socket_addrs().is_ok() {
            found.push("looked up localhost".to_owned());
        }
        if TcpStream::connect(&address).is_ok() {
            found.push(format!("connected to {address}"));
        }
        if TcpListener::bind("127.0.0.1:0").is_ok() {
            found.push("listened".to_owned());
        }
        if UdpSocket::bind("127.0.0.1:0").is_ok() {
            found.push("bound a UDP socket".to_owned());
        }
        if found.is_empty() { Ok(()) } else { Err(Failure::bury(found.join(", "))) }
    }
}

export!(ReachNet);
