//! What leaves the daemon: replies to channels.

mod lane;

pub(crate) use self::lane::Lanes;
