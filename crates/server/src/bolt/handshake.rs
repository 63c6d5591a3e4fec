//! Negotiation of the protocol version.
//!
//! A client sends `60 60 B0 17` and four proposals of 4 bytes, the best first: `00 RANGE MINOR MAJOR` means MINOR and
//! RANGE versions below it. The server answers `00 00 MINOR MAJOR`, or zeros, and closes. The proposal `00 00 01 FF`
//! requests a *manifest* instead: `00 00 01 FF`, the number of ranges offered, the ranges in the same form, and a
//! capability mask (none), both numbers as varints of seven bits a byte, lowest first; the client answers `00 00
//! MINOR MAJOR` and the capabilities that it accepts.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::structure::Forms;

const IDENTIFICATION: [u8; 4] = [0x60, 0x60, 0xb0, 0x17];
const MANIFEST: [u8; 4] = [0, 0, 1, 0xff];
/// Supported versions, the best first: 5.8 to 5.6, 5.4 to 5.0, and 4.4 to 4.1. (No server implements 5.5.)
const OFFERED: [[u8; 4]; 3] = [[0, 2, 8, 5], [0, 4, 4, 5], [0, 3, 4, 4]];

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 4 or 5.
    pub major: u8,
    /// 1 to 4, or 0 to 8.
    pub minor: u8,
}

impl Version {
    /// A version.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// Whether this server supports it.
    fn is_offered(self) -> bool {
        OFFERED.iter().any(|range| {
            let [_, below, minor, major] = *range;
            self.major == major && (minor - below..=minor).contains(&self.minor)
        })
    }

    /// Whether `LOGON` is a separate message.
    pub fn has_logon(self) -> bool {
        self >= Self::new(5, 1)
    }

    /// Encoding of structures, unless the client negotiates another one.
    pub fn forms(self) -> Forms {
        Forms {
            element_ids: self.major >= 5,
            utc: self.major >= 5,
        }
    }
}

/// Reply to a client whose first proposals are `first`: a version, the manifest, or none.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Version(Version),
    Manifest,
    None,
}

fn answer(proposals: &[u8; 16]) -> Answer {
    for proposal in proposals.chunks_exact(4) {
        if proposal == MANIFEST {
            return Answer::Manifest;
        }
        let (range, minor, major) = (proposal[1], proposal[2], proposal[3]);
        let wanted = (minor.saturating_sub(range)..=minor).rev();
        if let Some(version) = wanted
            .map(|minor| Version::new(major, minor))
            .find(|version| version.is_offered())
        {
            return Answer::Version(version);
        }
    }
    Answer::None
}

/// Negotiates a version with a client whose first bytes were `identification`; `None` if there is no common one, or
/// the client does not speak Bolt.
pub async fn shake(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    identification: [u8; 4],
) -> io::Result<Option<Version>> {
    if identification != IDENTIFICATION {
        return Ok(None);
    }
    let mut proposals = [0; 16];
    stream.read_exact(&mut proposals).await?;
    match answer(&proposals) {
        Answer::Version(version) => {
            stream
                .write_all(&[0, 0, version.minor, version.major])
                .await?;
            stream.flush().await?;
            Ok(Some(version))
        }
        Answer::Manifest => {
            let mut manifest = MANIFEST.to_vec();
            manifest.push(OFFERED.len() as u8);
            manifest.extend(OFFERED.iter().flatten());
            manifest.push(0);
            stream.write_all(&manifest).await?;
            stream.flush().await?;
            let mut chosen = [0; 4];
            stream.read_exact(&mut chosen).await?;
            // The client's capabilities: a varint of at most ten bytes. None is supported.
            for _ in 0..10 {
                let byte = stream.read_u8().await?;
                if byte & 0x7f != 0 {
                    return Ok(None);
                }
                if byte & 0x80 == 0 {
                    let [_, range, minor, major] = chosen;
                    let version = Version::new(major, minor);
                    return Ok(Some(version).filter(|version| range == 0 && version.is_offered()));
                }
            }
            Ok(None)
        }
        Answer::None => {
            stream.write_all(&[0; 4]).await?;
            stream.flush().await?;
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_proposal_wins() {
        let of = |proposals: [[u8; 4]; 4]| {
            let mut bytes = [0; 16];
            for (to, from) in bytes.chunks_exact_mut(4).zip(proposals) {
                to.copy_from_slice(&from);
            }
            answer(&bytes)
        };
        let none = [0; 4];
        let is = |major, minor| Answer::Version(Version::new(major, minor));
        assert_eq!(of([[0, 8, 8, 5], none, none, none]), is(5, 8));
        assert_eq!(of([[0, 0, 5, 5], none, none, none]), Answer::None);
        assert_eq!(of([[0, 1, 5, 5], none, none, none]), is(5, 4));
        assert_eq!(of([[0, 2, 20, 5], none, none, none]), Answer::None);
        assert_eq!(
            of([[0, 0, 0, 9], [0, 2, 4, 4], [0, 0, 0, 5], none]),
            is(4, 4)
        );
        assert_eq!(of([[0, 3, 3, 4], [0, 0, 0, 3], none, none]), is(4, 3));
        assert_eq!(of([[0, 0, 1, 4], none, none, none]), is(4, 1));
        assert_eq!(of([[0, 0, 0, 4], [0, 0, 0, 3], none, none]), Answer::None);
        assert_eq!(of([MANIFEST, [0, 8, 8, 5], none, none]), Answer::Manifest);
        assert_eq!(of([none; 4]), Answer::None);
        assert_eq!(of([[0, 255, 255, 5], none, none, none]), is(5, 8));
    }
}
