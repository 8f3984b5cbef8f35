//! Keeps secrets out of the environment block of a process that runs a daemon.
//!
//! Any process of the same user can read `/proc/PID/environ`, and it never changes after the start. So the program
//! starts itself again, as the same process, with harmless variables alone; the others travel in a file without a name,
//! which is read once and closed before anything else is started.

use super::environment::Environment;
use bridge_host::process::reexec;
use std::ffi::OsStr;
use std::io;

/// Variables that libraries, the service manager or people looking at the process need to find, and that hold no secret.
const PUBLIC: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    "TZ",
    "PWD",
    "SHLVL",
    "_",
    "HOSTNAME",
    "CODEX_HOME",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
    "SYSTEMD_EXEC_PID",
];
/// Families of such variables.
const PUBLIC_PREFIXES: &[&str] = &[
    "CODEX_BRIDGE_",
    "LC_",
    "XDG_",
    "RUST_",
    "LD_",
    "MALLOC_",
    "TOKIO_",
    "SSL_CERT_",
    "LLVM_PROFILE_",
];
/// What a name does not hold that is public, whatever family it belongs to.
const SECRET_WORDS: &[&str] = &["TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH"];

impl Environment {
    /// As [`Environment::read`]. Where there are variables that others must not see, this starts the program again
    /// without them and returns only if that fails. To be called before there are threads, or anything else to lose.
    pub fn read_privately() -> io::Result<Self> {
        let mut environment = Self::read();
        let marker = environment.take(reexec::MARKER);
        if let Some(handed) = marker.and_then(|marker| reexec::receive(&marker)) {
            environment.add(handed?);
            return Ok(environment);
        }
        let [public, private] = environment.split(is_public);
        if private.is_empty() {
            Ok(environment)
        } else {
            Err(reexec::start(&public, &private))
        }
    }
}

fn is_public(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let known = PUBLIC.contains(&name) || PUBLIC_PREFIXES.iter().any(|p| name.starts_with(p));
    known && !SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f2_only_harmless_variables_stay_visible() {
        for public in ["PATH", "LC_ALL", "NOTIFY_SOCKET", "CODEX_BRIDGE_FAIL_POINT"] {
            assert!(is_public(OsStr::new(public)), "{public}");
        }
        for private in [
            "OPENAI_API_KEY",
            "MOLECULE_WORKSPACE_TOKEN",
            "MOLECULE_WORKSPACES",
            "HTTPS_PROXY",
            "MY_PROVIDER",
            "CODEX_BRIDGE_MASTER_KEY",
        ] {
            assert!(!is_public(OsStr::new(private)), "{private}");
        }
    }
}
