//! The Codex executable: where it was found, which one it is, and whether we know its version.

use super::report::{Check, Report};
use bridge_daemon::config::{Config, Environment};
use bridge_host::binary::{self, Binary};
use bridge_host::version::{FLOOR, PINNED, Version};

const ID: &str = "codex";
const TITLE: &str = "codex";

pub(super) fn find(
    config: &Config,
    environment: &Environment,
    report: &mut Report,
) -> Option<Binary> {
    match binary::find(config.codex.bin.as_deref(), environment.program_vars()) {
        Ok(found) => {
            report.add(judge(&found));
            Some(found)
        }
        Err(error) => {
            report.add(Check::of_error(ID, TITLE, &error));
            None
        }
    }
}

fn judge(found: &Binary) -> Check {
    let path = found.path.display();
    let version = &found.version;
    let way = match &found.shim {
        Some(shim) => format!(" (the native one behind npm's {})", shim.display()),
        None => String::new(),
    };
    let detail = format!("{version} at {path}{way}");
    match PINNED.parse::<Version>() {
        Ok(pinned) if *version > pinned => Check::warn(
            ID,
            TITLE,
            format!("{detail}; newer than {PINNED}, the one this bridge was tested with"),
            format!("if it makes trouble: `npm install -g @openai/codex@{PINNED}`"),
        ),
        Ok(pinned) if *version == pinned => Check::ok(ID, TITLE, detail),
        Ok(_) | Err(_) => Check::ok(
            ID,
            TITLE,
            format!("{detail}; works from {FLOOR} on, tested with {PINNED}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    fn codex(version: &str) -> Binary {
        Binary {
            path: "/opt/codex".into(),
            shim: Some("/usr/bin/codex.js".into()),
            version: version.parse().unwrap(),
        }
    }

    #[test]
    fn newer_codex_version_warns() {
        assert_eq!(judge(&codex(PINNED)).status(), Status::Ok);
        assert_eq!(judge(&codex("0.150.0")).status(), Status::Ok);
        let newer = judge(&codex("99.0.0"));
        assert_eq!(newer.status(), Status::Warn);
        assert!(newer.words().contains("npm install"), "{}", newer.words());
        assert!(newer.words().contains("/usr/bin/codex.js"));
    }
}
