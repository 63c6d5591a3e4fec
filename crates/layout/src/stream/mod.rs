//! The change stream: one entry per commit, with the logical operations of all models.
//!
//! ```text
//! 01                       format
//! id n, then n times: u8 what (1 nodes of a label, 2 relationships of a type, 3 nodes, 4 relationships),
//!                          id label or type (0 for 3 and 4), id zigzag of the change of their number
//! operations, each a tag byte and:
//!   01 node created        id node, bytes record
//!   02 node changed        id node, labels added, labels removed, properties set, properties removed
//!   03 node deleted        id node, labels, bytes encoded _key (empty: none)
//!   04 relationship created  id relationship, bytes record
//!   05 relationship changed  id relationship, id type, properties set, properties removed
//!   06 relationship deleted  id relationship, id type, id source, id target
//!   07 key put             id bucket, bytes key, bytes value
//!   08 key deleted         id bucket, bytes key
//!   09 keys deleted        id bucket, bytes first key, u8 whether there is an end, bytes end
//!   0a nodes loaded        id label, id first node, id number of ids
//!   0b relationships loaded  id type, id first relationship, id number of ids
//!   0c schema changed      bytes name of what changed
//!   0d key put until       id bucket, bytes key, bytes value, id time of expiry in ms
//!   0e value added         id bucket, bytes key, bytes value (multi-value buckets)
//!   0f value removed       id bucket, bytes key, bytes value (multi-value buckets)
//!   10 bucket created      id bucket, u8 whether multi-value, u8 whether reversible
//!   11 bucket dropped      id bucket
//!   12 sequence advanced   id bucket, bytes name, id last number
//!   13 text put            as 07, of a text
//!   14 value put           as 07, of a typed value
//!   15 text put until      as 0d, of a text
//!   16 value put until     as 0d, of a typed value
//!   17 file named          id folder, bytes name, u8 whether a folder, id number (see `files`)
//!   18 file unnamed        id folder, bytes name
//!   19 file changed        id file or folder, id bytes, id created, id modified
//!   1a file written        id file, id offset, bytes
//!   1b file removed        id file or folder, with all content
//!   20 convergent operation  u8 owner (0 node, 1 relationship), id of it, id number in the transaction, bytes place (below the
//!                          owner, see `convergent::place`), bytes action (see `convergent::effect`)
//!   21 convergent transaction  id replica, id number, id hybrid time, vector (what it had seen, see `convergent::clock`); after
//!                          the convergent operations
//!   22 field merged        u8 owner (0 node, 1 relationship), id of it, id property
//! ```
//! `id` is an ordered id as in `keyspace`, `bytes` an id for the length and the bytes, a list of labels or properties
//! an id for the number and the ids, properties set the same with `bytes` of the encoded value after each id.

pub mod change;
pub mod codec;
pub mod stored;
