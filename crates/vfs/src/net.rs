//! What differs between operating systems when a server listens.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use crate::platform::system;

/// Whether several processes can listen on one address, and the system distributes the connections among them (Linux).
/// Elsewhere one of them would get them all, or the second is refused.
pub const SHARES_ADDRESSES: bool = system::SHARES_ADDRESSES;

/// Listens on an address on which other processes of the same user may listen, too, if they listen this way. At most
/// `waiting` connections wait to be accepted. The listener does not block.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] unless [`SHARES_ADDRESSES`]; otherwise those of the system.
pub fn listen_with_others(address: SocketAddr, waiting: i32) -> io::Result<TcpListener> {
    system::listen_with_others(address, waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_listen_on_one_address() -> io::Result<()> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        if !SHARES_ADDRESSES {
            let refused = listen_with_others(any, 16).map_err(|error| error.kind());
            assert_eq!(refused.err(), Some(io::ErrorKind::Unsupported));
            return Ok(());
        }
        let first = listen_with_others(any, 16)?;
        let address = first.local_addr()?;
        let second = listen_with_others(address, 16)?;
        assert_eq!(second.local_addr()?, address);
        let alone = TcpListener::bind(address).map_err(|error| error.kind());
        assert_eq!(alone.err(), Some(io::ErrorKind::AddrInUse));
        let blocked = second.accept().map_err(|error| error.kind());
        assert_eq!(blocked.err(), Some(io::ErrorKind::WouldBlock));
        Ok(())
    }
}
