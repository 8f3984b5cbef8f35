//! Read isolation, which keeps commands of peers and token holders from reading what is not theirs: whether it holds on
//! this machine. Where it does not, their messages wait, and that should be known before the first one.

use super::report::{Check, CheckStatus, Topic};
use bridge_core::value::ReadAccess;
use bridge_daemon::config::{Loaded, Tiers};
use bridge_host::binary::Binary;
use bridge_host::binary::launcher;
use bridge_host::sandbox::isolation_probe::{IsolationResult, probe_isolation};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Id and title of this check.
pub(super) const ISOLATION: Topic = Topic("shield", "isolation of peers and token holders");

/// The way out for operators who do not need it.
const OTHERWISE: &str = "mend what is said above; or accept that their commands read all that this user may read, with tiers.peer.reads = \"disk\" and tiers.tool.reads = \"disk\"";

/// Runs the probe of read isolation. `scratch` is a private directory.
pub(super) async fn check(
    loaded: &Loaded,
    binary: &Binary,
    env: Vec<(OsString, OsString)>,
    scratch: &Path,
) -> Check {
    let open = unisolated(&loaded.config.tiers);
    if open == BOTH {
        let detail =
            "not used: commands of peers and token holders read all that this user may read";
        return ISOLATION.warn(detail, take_out(open));
    }
    let codex = binary.path.clone();
    let scratch = scratch.join("shield");
    let proved = tokio::task::spawn_blocking(move || {
        let native = launcher::native_of(&codex, &env, &scratch).map_err(io::Error::other)?;
        probe_isolation(&codex, &native, &env, &scratch)
    });
    let proved = proved.await;
    let proved = proved.unwrap_or_else(|error| Err(io::Error::other(error)));
    let check = judge(proved, loaded.serves_isolated());
    match open {
        "" => check,
        _ if check.status() != CheckStatus::Ok => check,
        _ => {
            let detail = format!(
                "it holds, but {open} is \"disk\": such commands read all that this user may read"
            );
            ISOLATION.warn(detail, take_out(open))
        }
    }
}

/// Both tiers that are isolated by default.
const BOTH: &str = "tiers.peer.reads and tiers.tool.reads";

/// Which of them the operator lets read the disk.
fn unisolated(tiers: &Tiers) -> &'static str {
    match (tiers.peer.reads, tiers.tool.reads) {
        (ReadAccess::Disk, ReadAccess::Disk) => BOTH,
        (ReadAccess::Disk, ReadAccess::Isolated) => "tiers.peer.reads",
        (ReadAccess::Isolated, ReadAccess::Disk) => "tiers.tool.reads",
        (ReadAccess::Isolated, ReadAccess::Isolated) => "",
    }
}

fn take_out(keys: &str) -> String {
    format!("take {keys} out of the configuration, unless this is what you want")
}

/// Isolation that no tier uses may be broken.
fn judge(proved: io::Result<IsolationResult>, needed: bool) -> Check {
    let bad = match proved {
        Ok(IsolationResult::Holds) => {
            let detail =
                "commands behind it see their own directory, and did not see a file beside it";
            return ISOLATION.ok(detail);
        }
        Ok(
            bad
            @ (IsolationResult::Leaks | IsolationResult::Broken { .. } | IsolationResult::Hangs),
        ) => bad.to_string(),
        Err(error) => format!("could not be tried: {error}"),
    };
    if needed {
        ISOLATION.fail(
            format!("{bad}; messages of peers and token holders wait"),
            OTHERWISE,
        )
    } else {
        ISOLATION.warn(bad, OTHERWISE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_read_isolation_fails_with_peers() {
        assert_eq!(
            judge(Ok(IsolationResult::Holds), true).status(),
            CheckStatus::Ok
        );
        for bad in [IsolationResult::Leaks, IsolationResult::Hangs] {
            let check = judge(Ok(bad.clone()), true);
            assert_eq!(check.status(), CheckStatus::Fail);
            assert!(check.words().contains("tiers.peer.reads"), "{check:?}");
            assert_eq!(judge(Ok(bad), false).status(), CheckStatus::Warn);
        }
        assert_eq!(
            judge(Err(io::Error::other("x")), true).status(),
            CheckStatus::Fail
        );
    }
}
