//! The shield that keeps commands of peers from reading what is not theirs: whether it holds on this machine.
//! Where it does not, their messages wait, and that should be known before the first one.

use super::report::Check;
use crate::config::{Loaded, ReadsKey};
use bridge_host::binary::Binary;
use bridge_host::proof::{Shield, prove};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Id and title of this check.
pub(super) const SHIELD: (&str, &str) = ("shield", "shield of peers");

/// The way out for operators who do not need it.
const OTHERWISE: &str = "mend the sandbox as said above; or accept that commands of peers read all that this user may read, with tiers.peer.reads = \"disk\"";

/// Tries the shield. `scratch` is a private directory.
pub(super) async fn check(
    loaded: &Loaded,
    binary: &Binary,
    env: Vec<(OsString, OsString)>,
    scratch: &Path,
) -> Check {
    let (id, title) = SHIELD;
    if loaded.config.tiers.peer.reads == ReadsKey::Disk {
        let detail = "not used: commands of peers read all that this user may read";
        let fix = "take tiers.peer.reads = \"disk\" out, unless this is what you want";
        return Check::warn(id, title, detail, fix);
    }
    let codex = binary.path.clone();
    let scratch = scratch.join("shield");
    let proved = tokio::task::spawn_blocking(move || prove(&codex, &env, &scratch)).await;
    let proved = proved.unwrap_or_else(|error| Err(io::Error::other(error)));
    judge(proved, loaded.serves_peers())
}

/// A shield that nobody needs may be broken.
fn judge(proved: io::Result<Shield>, needed: bool) -> Check {
    let (id, title) = SHIELD;
    let bad = match proved {
        Ok(Shield::Holds) => {
            let detail =
                "commands behind it see their own directory, and did not see a file beside it";
            return Check::ok(id, title, detail);
        }
        Ok(bad @ (Shield::Leaks | Shield::Broken { .. } | Shield::Hangs)) => bad.to_string(),
        Err(error) => format!("could not be tried: {error}"),
    };
    match needed {
        true => Check::fail(
            id,
            title,
            format!("{bad}; messages of peers wait"),
            OTHERWISE,
        ),
        false => Check::warn(id, title, bad, OTHERWISE),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    #[test]
    fn a_shield_that_does_not_hold_fails_where_peers_write_to_us() {
        assert_eq!(judge(Ok(Shield::Holds), true).status(), Status::Ok);
        for bad in [Shield::Leaks, Shield::Hangs] {
            let check = judge(Ok(bad.clone()), true);
            assert_eq!(check.status(), Status::Fail);
            assert!(check.words().contains("tiers.peer.reads"), "{check:?}");
            assert_eq!(judge(Ok(bad), false).status(), Status::Warn);
        }
        assert_eq!(
            judge(Err(io::Error::other("x")), true).status(),
            Status::Fail
        );
    }
}
