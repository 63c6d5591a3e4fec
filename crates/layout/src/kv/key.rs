//! Typed keys: Rust values as bytes that sort like the values.
//!
//! | type | bytes |
//! |---|---|
//! | `u8` … `u128` | big endian |
//! | `i8` … `i128` | big endian, the sign's bit turned over |
//! | `bool` | 0 or 1 |
//! | `f32`, `f64` | the bits, the sign's turned over, all turned over where it was set: −NaN < −∞ … −0 < 0 … ∞ < NaN |
//! | `char` | as `u32` |
//! | text, bytes | as they are, `00` written as `00 ff`; then `00 00` |
//! | arrays of bytes | as they are: their length is the type's |
//! | `Option` | `00` for none, `01` and the value |
//! | tuples | one part after another |
//!
//! Every encoding says where it ends, so that the first parts of a tuple are a prefix of it: they name a range.

use crate::{
    DataError,
    keyspace::{push_terminated, take_terminated},
};

/// A type whose values are keys of a bucket, in their own order. The order of the bytes must be that of the values, and
/// no encoding may be a prefix of another one.
///
/// ```
/// use isomer_layout::kv::key::{BucketKey, decode_key, encode_key};
///
/// let early = encode_key(&(-3i64, "b"));
/// let late = encode_key(&(7i64, "a"));
/// assert!(early < late && late.starts_with(&encode_key(&7i64)));
/// assert_eq!(decode_key::<(i64, String)>(&late)?, (7, "a".to_owned()));
/// # Ok::<(), isomer_layout::DataError>(())
/// ```
pub trait BucketKey {
    /// Appends the bytes.
    fn push_key(&self, out: &mut Vec<u8>);
}

/// A key that can be decoded from its bytes.
pub trait FromBucketKey: Sized {
    /// Decodes one from the front of `bytes`; nothing if they are invalid.
    fn take_key(bytes: &mut &[u8]) -> Option<Self>;
}

/// The bytes of a typed key.
pub fn encode_key(key: &(impl BucketKey + ?Sized)) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    key.push_key(&mut bytes);
    bytes
}

/// A typed key from its bytes.
///
/// # Errors
/// [`DataError::Invalid`] if the bytes are not a key of this type.
pub fn decode_key<K: FromBucketKey>(bytes: &[u8]) -> Result<K, DataError> {
    let mut rest = bytes;
    match K::take_key(&mut rest) {
        Some(key) if rest.is_empty() => Ok(key),
        _ => Err(DataError::invalid(format!(
            "the key `{}` is not one of type {}: read the bucket with the type that it was written with",
            bytes[..bytes.len().min(40)].escape_ascii(),
            std::any::type_name::<K>()
        ))),
    }
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

macro_rules! numbers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl BucketKey for $unsigned {
            fn push_key(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl FromBucketKey for $unsigned {
            fn take_key(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self::from_be_bytes(take_array(bytes)?))
            }
        }
        impl BucketKey for $signed {
            fn push_key(&self, out: &mut Vec<u8>) {
                self.cast_unsigned().wrapping_add(Self::MIN.cast_unsigned()).push_key(out);
            }
        }
        impl FromBucketKey for $signed {
            fn take_key(bytes: &mut &[u8]) -> Option<Self> {
                Some(<$unsigned>::take_key(bytes)?.wrapping_sub(Self::MIN.cast_unsigned()).cast_signed())
            }
        }
    )*};
}

numbers! {
    u8, i8;
    u16, i16;
    u32, i32;
    u64, i64;
    u128, i128;
}

macro_rules! floats {
    ($($float:ty, $bits:ty;)*) => {$(
        impl BucketKey for $float {
            fn push_key(&self, out: &mut Vec<u8>) {
                let (bits, sign) = (self.to_bits(), 1 << (<$bits>::BITS - 1));
                let turned = if bits & sign == 0 { bits | sign } else { !bits };
                turned.push_key(out);
            }
        }
        impl FromBucketKey for $float {
            fn take_key(bytes: &mut &[u8]) -> Option<Self> {
                let (turned, sign) = (<$bits>::take_key(bytes)?, 1 << (<$bits>::BITS - 1));
                Some(Self::from_bits(if turned & sign == 0 { !turned } else { turned & !sign }))
            }
        }
    )*};
}

floats! {
    f32, u32;
    f64, u64;
}

impl BucketKey for bool {
    fn push_key(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl FromBucketKey for bool {
    fn take_key(bytes: &mut &[u8]) -> Option<Self> {
        match u8::take_key(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl BucketKey for char {
    fn push_key(&self, out: &mut Vec<u8>) {
        u32::from(*self).push_key(out);
    }
}

impl FromBucketKey for char {
    fn take_key(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_u32(u32::take_key(bytes)?)
    }
}

impl BucketKey for str {
    fn push_key(&self, out: &mut Vec<u8>) {
        push_terminated(out, self.as_bytes());
    }
}

impl BucketKey for String {
    fn push_key(&self, out: &mut Vec<u8>) {
        self.as_str().push_key(out);
    }
}

impl FromBucketKey for String {
    fn take_key(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(take_terminated(bytes)?).ok()
    }
}

impl BucketKey for [u8] {
    fn push_key(&self, out: &mut Vec<u8>) {
        push_terminated(out, self);
    }
}

impl BucketKey for Vec<u8> {
    fn push_key(&self, out: &mut Vec<u8>) {
        self.as_slice().push_key(out);
    }
}

impl FromBucketKey for Vec<u8> {
    fn take_key(bytes: &mut &[u8]) -> Option<Self> {
        take_terminated(bytes)
    }
}

impl<const N: usize> BucketKey for [u8; N] {
    fn push_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> FromBucketKey for [u8; N] {
    fn take_key(bytes: &mut &[u8]) -> Option<Self> {
        take_array(bytes)
    }
}

impl<K: BucketKey> BucketKey for Option<K> {
    fn push_key(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.push_key(out);
        }
    }
}

impl<K: FromBucketKey> FromBucketKey for Option<K> {
    fn take_key(bytes: &mut &[u8]) -> Option<Self> {
        match u8::take_key(bytes)? {
            0 => Some(None),
            1 => Some(Some(K::take_key(bytes)?)),
            _ => None,
        }
    }
}

impl<K: BucketKey + ?Sized> BucketKey for &K {
    fn push_key(&self, out: &mut Vec<u8>) {
        (**self).push_key(out);
    }
}

macro_rules! tuples {
    ($(($($part:ident),*);)*) => {$(
        impl<$($part: BucketKey),*> BucketKey for ($($part,)*) {
            #[allow(non_snake_case)]
            fn push_key(&self, out: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $($part.push_key(out);)*
            }
        }
        impl<$($part: FromBucketKey),*> FromBucketKey for ($($part,)*) {
            fn take_key(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::take_key(bytes)?,)*))
            }
        }
    )*};
}

tuples! {
    (A);
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orders<K: BucketKey + FromBucketKey + PartialEq + std::fmt::Debug>(
        one: &K,
        two: &K,
        expected: std::cmp::Ordering,
    ) {
        let (a, b) = (encode_key(one), encode_key(two));
        assert_eq!(a.cmp(&b), expected, "{one:?} {two:?}");
        assert_eq!(&decode_key::<K>(&a).unwrap(), one);
        assert!(one == two || !b.starts_with(&a) || a.is_empty());
    }

    type Key = (i64, String, Option<u16>, Vec<u8>, bool, [u8; 3]);

    proptest! {
        #[test]
        fn bytes_sort_as_values(one: Key, two: Key, same in 0..4_usize) {
            let mut two = two;
            if same > 0 { two.0 = one.0; }
            if same > 1 { two.1.clone_from(&one.1); }
            if same > 2 { two.2 = one.2; }
            orders(&one, &two, one.cmp(&two));
            orders(&one.1, &two.1, one.1.cmp(&two.1));
            prop_assert!(encode_key(&one).starts_with(&encode_key(&(one.0, one.1.as_str()))));
        }

        #[test]
        fn numbers_sort(ints: (i8, i8, u128, u128, i128, i128), floats: (f64, f64, f32, f32)) {
            orders(&ints.0, &ints.1, ints.0.cmp(&ints.1));
            orders(&ints.2, &ints.3, ints.2.cmp(&ints.3));
            orders(&ints.4, &ints.5, ints.4.cmp(&ints.5));
            let (a, b) = (encode_key(&floats.0), encode_key(&floats.1));
            prop_assert_eq!(a.cmp(&b), floats.0.total_cmp(&floats.1));
            prop_assert_eq!(decode_key::<f64>(&a).unwrap().to_bits(), floats.0.to_bits());
            let (a, b) = (encode_key(&floats.2), encode_key(&floats.3));
            prop_assert_eq!(a.cmp(&b), floats.2.total_cmp(&floats.3));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = decode_key::<Key>(&bytes);
            let _ = decode_key::<(char, f32, bool)>(&bytes);
        }
    }

    #[test]
    fn other_types_are_refused() {
        assert!(decode_key::<u32>(&encode_key(&7u64)).is_err());
        assert!(decode_key::<String>(b"abc").is_err());
        assert!(decode_key::<bool>(&[2]).is_err());
    }
}
