//! Trusted server certificates: those that chain up to one in a PEM file, and those that are in it themselves.
//!
//! `openssl req -x509` marks its certificates as ones of an authority (`CA:TRUE`), which the usual rules (RFC 5280,
//! 4.2.1.9) refuse as server certificates. If that very certificate is in the file, byte by byte, no chain is needed:
//! its name, its validity period and the server's possession of the key are left to check, and are checked.

use std::{io, path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use crate::{Result, SyncError};

/// A TLS client configuration that trusts the certificates of a PEM file.
///
/// # Errors
///
/// [`SyncError::Invalid`] if they cannot be read or parsed.
pub(crate) fn config(path: &Path) -> Result<Arc<ClientConfig>> {
    let verifier = Arc::new(Verifier::of(path)?);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unreadable(path, &error))?
        // `Verifier` accepts what the default verifier accepts, and pinned certificates.
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn unreadable(path: &Path, reason: &dyn std::fmt::Display) -> SyncError {
    SyncError::Invalid(format!(
        "{} cannot be read as certificates: {reason}",
        path.display()
    ))
}

/// The error for a file without a certificate, with what it holds instead.
fn no_certificate(path: &Path) -> SyncError {
    let found = match std::fs::read(path) {
        Ok(bytes) if bytes.is_empty() => "is empty",
        Ok(bytes) if holds(&bytes, "PRIVATE KEY-----") => {
            "holds a private key instead of a certificate (a private key must not leave its server)"
        }
        Ok(bytes) if holds(&bytes, "-----BEGIN ") => "holds no certificate, but other PEM items",
        Ok(bytes) if bytes.starts_with(&[0x30, 0x82]) => "is not in PEM format, but perhaps in DER",
        _ => "holds no certificate",
    };
    SyncError::Invalid(format!(
        "{} {found}: name a PEM file with the server's certificate or that of its authority (`-----BEGIN CERTIFICATE-----`)",
        path.display()
    ))
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// What to do about a refused certificate.
pub(crate) fn advice(error: &io::Error, host: &str) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let Error::InvalidCertificate(why) = error else {
        return None;
    };
    Some(match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is none of those that are trusted, and signed by none of them: name its own certificate or that of its \
             authority with --certificates"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let kind = match host.parse::<std::net::IpAddr>() {
                Ok(_) => "IP",
                Err(_) => "DNS",
            };
            format!(
                "its certificate is not one of `{host}`: use a name that it has as subjectAltName (the common name does not count), or \
                 make one with `openssl req -x509 … -addext subjectAltName={kind}:{host}`"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it, or set the clock right".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: set the clock right".to_owned()
        }
        why if is_authority(why) => {
            "its certificate is marked as one of an authority (CA:TRUE) and is not itself in the file of --certificates: add it there, or \
             make one with `-addext basicConstraints=critical,CA:FALSE`"
                .to_owned()
        }
        _ => return None,
    })
}

/// Whether a certificate is refused because it is marked as one of an authority. Its validity period was checked
/// before that.
fn is_authority(why: &CertificateError) -> bool {
    matches!(why, CertificateError::Other(OtherError(why)) if why.to_string() == "CaUsedAsEndEntity")
}

#[derive(Debug)]
struct Verifier {
    chained: Arc<WebPkiServerVerifier>,
    /// Pinned certificates.
    named: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// A verifier that trusts the certificates of a PEM file.
    fn of(path: &Path) -> Result<Self> {
        let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, &error))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable(path, &error))?;
            roots
                .add(certificate.clone())
                .map_err(|error| unreadable(path, &error))?;
            named.push(certificate);
        }
        if named.is_empty() {
            return Err(no_certificate(path));
        }
        let provider = Arc::new(ring::default_provider());
        let chained = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| unreadable(path, &error))?;
        Ok(Self { chained, named })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.chained.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(Error::InvalidCertificate(why))
                if is_authority(&why) && self.named.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chained
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chained
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chained.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, net::TcpListener, process::Command, thread, time::Duration};

    use rustls::{
        ClientConnection, ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer,
    };

    use super::*;

    /// A certificate and its key in `folder`, made by openssl; `None` if that is not installed.
    fn openssl(folder: &Path, name: &str, more: &[&str]) -> Option<()> {
        let made = Command::new("openssl")
            .current_dir(folder)
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                "/CN=localhost",
            ])
            .args([
                "-keyout",
                &format!("{name}.key"),
                "-out",
                &format!("{name}.pem"),
            ])
            .args(more)
            .output();
        let made = match made {
            Ok(made) => made,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => panic!("{error}"),
        };
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        Some(())
    }

    /// Result of a handshake with a server that presents `shown`, with `trusted` as the trusted certificates.
    fn handshake(folder: &Path, shown: &str, trusted: &str, host: &str) -> Result<(), io::Error> {
        let file = |name: &str, ending: &str| folder.join(format!("{name}.{ending}"));
        let chain = CertificateDer::pem_file_iter(file(shown, "pem"))
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        let key = PrivateKeyDer::from_pem_file(file(shown, "key")).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let tls = ServerConnection::new(Arc::new(server)).unwrap();
            // The client may abort it.
            let _ = io::copy(&mut StreamOwned::new(tls, stream), &mut io::sink());
        });
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let tls = ClientConnection::new(config(&file(trusted, "pem")).unwrap(), name).unwrap();
        let stream = std::net::TcpStream::connect(address).unwrap();
        let mut stream = StreamOwned::new(tls, stream);
        let outcome = stream.conn.complete_io(&mut stream.sock).map(|_| ());
        drop(stream);
        serving.join().unwrap();
        outcome
    }

    #[test]
    fn a_file_without_a_certificate_is_named_with_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let key =
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n";
        let request =
            "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
        let cases: [(&str, &[u8], &str); 6] = [
            ("empty.pem", b"", "is empty"),
            ("text.pem", b"a certificate\n", "holds no certificate"),
            ("server.key", key.as_bytes(), "holds a private key"),
            ("request.pem", request.as_bytes(), "but other PEM items"),
            ("own.der", &[0x30, 0x82, 1, 0x0a, 0x30, 0x81], "in DER"),
            (
                "broken.pem",
                b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
                "cannot be read as certificates",
            ),
        ];
        for (name, bytes, what) in cases {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let error = config(&path).unwrap_err().to_string();
            assert!(error.contains(what), "{name}: {error}");
            assert!(error.contains(name), "{error}");
            let tells = error.contains("name a PEM file") && error.contains("BEGIN CERTIFICATE");
            assert!(tells || name == "broken.pem", "{error}");
        }
        let missing = config(&folder.path().join("absent.pem")).unwrap_err();
        assert!(missing.to_string().contains("absent.pem"), "{missing}");
    }

    #[test]
    fn a_certificate_of_openssl_is_trusted_if_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
        let of_server = [
            &names[..],
            &["-addext", "basicConstraints=critical,CA:FALSE"],
        ]
        .concat();
        let all: [(&str, &[&str]); 4] = [
            ("own", &names[..]),
            ("other", &names[..]),
            ("unnamed", &[]),
            ("plain", &of_server[..]),
        ];
        for (name, more) in all {
            let Some(()) = openssl(folder, name, more) else {
                // Read by `cargo xtask test`, as `Verdict::report` of the testkit prints it.
                let thread = std::thread::current();
                let name = thread.name().unwrap_or_default();
                let line = format!(
                    "\nskipped test {name}: openssl is not installed: apt-get install openssl\n"
                );
                return std::io::stderr().write_all(line.as_bytes()).unwrap();
            };
        }
        let refused = |shown, trusted, host| {
            let error = handshake(folder, shown, trusted, host).unwrap_err();
            advice(&error, host).unwrap_or_else(|| panic!("no advice: {error}"))
        };
        for host in ["localhost", "127.0.0.1"] {
            handshake(folder, "own", "own", host).unwrap();
            handshake(folder, "plain", "plain", host).unwrap();
        }
        // Another certificate of the same name, and one for another host, are still refused.
        for shown in ["own", "plain"] {
            let advice = refused(shown, "other", "localhost");
            assert!(advice.contains("--certificates"), "{shown}: {advice}");
        }
        assert!(refused("own", "own", "example.org").contains("subjectAltName=DNS:example.org"));
        assert!(refused("unnamed", "unnamed", "localhost").contains("common name does not count"));
        assert!(refused("unnamed", "unnamed", "127.0.0.1").contains("subjectAltName=IP:127.0.0.1"));
        // The validity period is checked for pinned certificates as well.
        let verifier = Verifier::of(&folder.join("own.pem")).unwrap();
        let at = |seconds| {
            let name = ServerName::try_from("localhost").unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            verifier
                .verify_server_cert(&verifier.named[0], &[], &name, &[], now)
                .map(|_| ())
                .map_err(|error| advice(&io::Error::other(error), "localhost").unwrap())
        };
        assert!(at(946_684_800).unwrap_err().contains("not valid yet"));
        assert!(at(4_102_444_800).unwrap_err().contains("has expired"));
    }
}
