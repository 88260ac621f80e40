//! The network between a host and a real server, which goes wrong on command: it cuts connections, stalls them, or swallows what they carry.
//!
//! It reads nothing of what it carries, and never makes bytes up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How it is on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Flows,
    /// No byte passes either way; none is lost.
    Stalls,
    /// Requests pass, and no byte of a reply does; none is lost.
    StallsReplies,
    /// Bytes are swallowed, and nobody is told. A connection that has lost some stays silent for ever, as if its other end had vanished; a
    /// new one is accepted and as silent.
    Swallows,
}

/// What the connections obey: written by whoever holds the proxy.
#[derive(Clone, Copy, Debug)]
struct Orders {
    network: Network,
    n_cuts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Requests,
    Replies,
}

/// See the module. Dropping it closes all connections.
pub struct Proxy {
    /// Leads to the same database as the URL that was given, through here.
    pub url: String,
    orders: watch::Sender<Orders>,
    listener: JoinHandle<()>,
}

impl Proxy {
    /// Stands in front of the server that `url` names, whose host and port must both be there.
    ///
    /// # Errors
    /// If the URL names no address, or no port can be listened on.
    pub async fn before(url: &str) -> Result<Self> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or(rest);
        let address = authority.rsplit('@').next().unwrap_or(authority).to_owned();
        let server = tokio::net::lookup_host(&address).await?.next().context("a server's address")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = url.replacen(&address, &listener.local_addr()?.to_string(), 1);
        let (orders, obeyed) = watch::channel(Orders { network: Network::Flows, n_cuts: 0 });
        let listener = tokio::spawn(listen(listener, server, obeyed));
        Ok(Self { url, orders, listener })
    }

    /// From now on the network is like this, for connections that are there and for new ones.
    pub fn set(&self, network: Network) {
        self.orders.send_modify(|orders| orders.network = network);
    }

    /// The network is like this for a while, and then it flows.
    pub async fn set_for(&self, network: Network, time: Duration) {
        self.set(network);
        crate::pause_for(time).await;
        self.set(Network::Flows);
    }

    /// Ends every connection there is.
    pub fn cut(&self) {
        self.orders.send_modify(|orders| orders.n_cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Its connections end with it.
async fn listen(listener: TcpListener, server: SocketAddr, obeyed: watch::Receiver<Orders>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, server, obeyed.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut obeyed: watch::Receiver<Orders>) {
    let Orders { network, n_cuts } = *obeyed.borrow();
    if network == Network::Swallows {
        let mut swallowed = [0; 4096];
        let silence = async { while client.read(&mut swallowed).await.is_ok_and(|n| n > 0) {} };
        tokio::select! {
            () = silence => {}
            _ = obeyed.wait_for(|orders| orders.n_cuts > n_cuts) => {}
        }
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return;
    }
    let has_lost_bytes = Arc::new(AtomicBool::new(false));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::select! {
        () = pump(from_client, to_server, Direction::Requests, obeyed.clone(), &has_lost_bytes) => {}
        () = pump(from_server, to_client, Direction::Replies, obeyed.clone(), &has_lost_bytes) => {}
        _ = obeyed.wait_for(|orders| orders.n_cuts > n_cuts) => {}
    }
}

/// Carries bytes one way until that side ends, or the other cannot take any more.
async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    direction: Direction,
    mut obeyed: watch::Receiver<Orders>,
    has_lost_bytes: &AtomicBool,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let n = from.read(&mut bytes).await.unwrap_or(0);
        let Ok(orders) = obeyed.wait_for(|orders| !orders.network.stalls(direction)).await.map(|orders| *orders) else { return };
        if orders.network == Network::Swallows {
            has_lost_bytes.store(true, Ordering::SeqCst);
        }
        let is_silent = has_lost_bytes.load(Ordering::SeqCst);
        match (n, direction) {
            // Nobody tells the client that the server has gone.
            (0, Direction::Replies) if is_silent => std::future::pending().await,
            (0, _) => return,
            _ if is_silent => {}
            (n, _) => {
                if to.write_all(&bytes[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Network {
    fn stalls(self, direction: Direction) -> bool {
        match self {
            Self::Stalls => true,
            Self::StallsReplies => direction == Direction::Replies,
            Self::Flows | Self::Swallows => false,
        }
    }
}
