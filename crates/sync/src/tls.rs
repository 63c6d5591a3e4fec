//! TLS for the HTTP client, with a configuration of this crate: the client's own one has no pinned certificates.

use std::{
    fmt,
    io::{self, Read, Write},
    sync::Arc,
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

use crate::{Result, SyncError};

/// Puts TLS over the connections to one host.
#[derive(Debug)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl TlsConnector {
    /// # Errors
    ///
    /// [`SyncError::Invalid`] for an invalid name.
    pub(crate) fn new(config: Arc<ClientConfig>, host: &str) -> Result<Self> {
        let invalid = |_| SyncError::Invalid(format!("`{host}` is not a valid host name"));
        let host = ServerName::try_from(host.to_owned()).map_err(invalid)?;
        Ok(Self { config, host })
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = TlsTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        below: Option<In>,
    ) -> Result<Option<TlsTransport>, ureq::Error> {
        let Some(below) = below else {
            return Ok(None);
        };
        let mut connection = ClientConnection::new(self.config.clone(), self.host.clone())
            .map_err(io::Error::other)?;
        let mut socket = TransportAdapter::new(below.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        // The handshake: a refused certificate is an error here, not in the first request.
        connection.complete_io(&mut socket)?;
        let config = details.config;
        Ok(Some(TlsTransport {
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            stream: StreamOwned::new(connection, socket),
        }))
    }
}

/// A connection with TLS.
pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, count: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..count])?;
        Ok(self.stream.flush()?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}
