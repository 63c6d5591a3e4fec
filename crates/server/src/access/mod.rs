//! Authorisation.
//!
//! There is one way to a database: a [`Session`] holds an authenticated principal, [`Session::database`] returns an
//! [`DatabaseAccess`] to one database or refuses, and only a `DatabaseAccess` runs commands. No front end holds a
//! database itself, so that a command without a principal cannot be written. What is not allowed explicitly is denied;
//! there is no ambient identity: a session is a value that is passed on.

mod admission;
mod databases;
mod guesses;
mod host;
pub(crate) mod password;
mod role;
mod session;
mod system;

pub use admission::{Admission, AdmissionControl, Body, Written};
pub(crate) use databases::check_name;
pub use databases::{Databases, Metric, name_of};
pub use guesses::{Guesses, LoginTurn};
pub(crate) use host::{SYSTEM, ServerFacts};
pub use role::{ALL_DATABASES, Rights, Role};
pub(crate) use session::Outlines;
pub use session::{DatabaseAccess, Principal, ServerAccess, Session};
pub(crate) use system::is_user_name;
pub use system::{Credential, Login, NewToken, System, TokenInfo, UserInfo};
