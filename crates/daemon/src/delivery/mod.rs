//! What leaves the daemon: replies to channels.

mod lane;
