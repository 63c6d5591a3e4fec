//! Passwords (Argon2id) and secrets (256 random bits, kept as their SHA-256).

use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};

use crate::{Result, ServerError};

/// Parameters recommended by OWASP: 19 MiB, two passes, one lane.
fn argon2() -> Argon2<'static> {
    let params = Params::new(19_456, 2, 1, None).expect("constants within the algorithm's bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// Shortest password.
const MIN_PASSWORD_CHARS: usize = 8;
/// Longest password in bytes: a longer one is no safer, and hashing it costs time before the client has
/// authenticated.
const MAX_PASSWORD_BYTES: usize = 1024;

/// Hashes a password with a new salt; the result holds its parameters. Takes tens of milliseconds and 19 MiB.
pub(super) fn hash(password: &str) -> Result<String> {
    if password.chars().count() < MIN_PASSWORD_CHARS || password.len() > MAX_PASSWORD_BYTES {
        return Err(ServerError::Invalid(format!(
            "a password must have at least {MIN_PASSWORD_CHARS} characters and at most {MAX_PASSWORD_BYTES} bytes"
        )));
    }
    let hashed = argon2().hash_password_with_salt(password.as_bytes(), &random::<16>()?);
    match hashed {
        Ok(hashed) => Ok(hashed.to_string()),
        Err(error) => Err(ServerError::Internal(format!(
            "the password cannot be hashed: {error}"
        ))),
    }
}

/// Whether `password` matches `hash`. Any error counts as a mismatch.
pub(super) fn verify(password: &str, hash: &str) -> bool {
    password.len() <= MAX_PASSWORD_BYTES
        && argon2().verify_password(password.as_bytes(), hash).is_ok()
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(ServerError::Unavailable(
            "the system provides no random numbers now".into(),
        )),
    }
}

/// The digest that is stored of a secret.
pub(crate) fn digest_of(secret: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    bytes
}

/// Whether two digests are equal, in constant time.
pub(crate) fn equal(one: &[u8; 32], two: &[u8; 32]) -> bool {
    one.iter()
        .zip(two)
        .fold(0, |difference, (a, b)| difference | (a ^ b))
        == 0
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
            }
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_stored_as_a_salted_argon2id_hash() {
        let (one, two) = (
            hash("correct horse").unwrap(),
            hash("correct horse").unwrap(),
        );
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_ne!(one, two, "each has its own salt");
        assert!(verify("correct horse", &one) && verify("correct horse", &two));
        assert!(!verify("correct horsf", &one) && !verify("", &one));
        assert!(!verify("correct horse", "") && !verify("correct horse", "$argon2id$v=19$"));
    }

    #[test]
    fn passwords_that_are_too_short_or_too_long_are_refused() {
        assert!(hash("seven77").is_err());
        assert!(hash(&"x".repeat(2000)).is_err());
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
    }
}
