//! S4: a file system that is read-only, a directory or a file that belongs to somebody else: a clear error at start,
//! and nothing is changed.

use crate::given::{World, key, text};
use crate::rig::{Place, again, may_mount, mount, small_disk, told};
use bridge_store::{OpenError, Options, SqliteLedger};
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

fn refused(path: &Path, why: &str) {
    let error = SqliteLedger::open(path, &key(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::File { .. }), "{error:?}");
    assert!(!error.is_damage(), "it is not the file's fault");
    let source = error.source().unwrap().to_string();
    assert!(source.contains(why), "{source}");
    let said = error.to_string();
    assert!(
        said.contains("ledger.db") && said.contains("permissions"),
        "{said}"
    );
}

#[tokio::test]
async fn s4_read_only_file_system_is_reported() {
    if !may_mount() {
        return;
    }
    let place = small_disk(16);
    let ledger = place.open();
    World::over(&ledger).does(text("a", "m1")).await;
    let copy = crate::rig::one_file(&place.path, "copy.db");
    let elsewhere = small_disk(16);
    fs::copy(copy, &elsewhere.path).unwrap();
    let before = fs::read(&elsewhere.path).unwrap();
    mount(&["-o", "remount,ro"], &elsewhere);
    refused(&elsewhere.path, "Read-only file system");
    refused(&elsewhere.at("none/ledger.db"), "No such file");
    refused(&elsewhere.at("new-ledger.db"), "Read-only file system");
    assert!(fs::read(&elsewhere.path).unwrap() == before);
}

const NOBODY: &str = "CODEX_BRIDGE_TEST_S4_NOBODY";
const NOBODY_ID: u32 = 65_534;

#[test]
fn s4_foreign_ownership_is_reported() {
    if let Some(directory) = told(NOBODY) {
        let directory = Path::new(&directory);
        refused(&directory.join("theirs/ledger.db"), "Permission denied");
        refused(&directory.join("closed/ledger.db"), "Permission denied");
        return;
    }
    let place = Place::new();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (name, bits) in [("theirs", 0o755), ("closed", 0o555)] {
        fs::create_dir(place.at(name)).unwrap();
        if name == "theirs" {
            drop(
                SqliteLedger::open(place.at("theirs/ledger.db"), &key(), Options::default())
                    .unwrap(),
            );
        }
        mode(&place.at(name), bits);
    }
    mode(place.directory.path(), 0o755);
    let mut child = again(&[], NOBODY, place.directory.path().to_str().unwrap());
    if nix::unistd::getuid().is_root() {
        // The test binary must be readable for others; a copy is.
        let exe = place.at("test");
        fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
        mode(&exe, 0o755);
        let args: Vec<_> = child.get_args().map(ToOwned::to_owned).collect();
        let mut other = std::process::Command::new(&exe);
        other
            .args(args)
            .env(NOBODY, place.directory.path())
            .current_dir("/");
        other.uid(NOBODY_ID).gid(NOBODY_ID);
        child = other;
    } else {
        mode(&place.at("theirs/ledger.db"), 0o000);
    }
    let ended = child.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
}
