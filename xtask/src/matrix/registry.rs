//! Which versions of Codex there are, by npm's registry, and which of them are tested.

use crate::ci::clean;
use anyhow::{Context, bail};
use bridge_host::version::{FLOOR, PINNED, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The package.
const PACKAGE: &str = "@openai/codex";

/// All versions with the day of their release.
pub(super) fn released() -> anyhow::Result<BTreeMap<Version, String>> {
    let mut npm = clean(Command::new("npm"));
    npm.args(["view", PACKAGE, "time", "--json"]);
    let output = npm.output().context("cannot start npm; install Node.js")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("npm could not ask its registry for {PACKAGE}: {said}");
    }
    let times: BTreeMap<String, String> = serde_json::from_slice(&output.stdout)
        .context("npm did not say when which version was released")?;
    let days = times.into_iter().filter_map(|(version, time)| {
        let version: Version = version.parse().ok()?;
        let day = time.split('T').next().unwrap_or_default();
        is_whole(&version).then(|| (version, day.to_owned()))
    });
    Ok(days.collect())
}

/// Not the part of a release for one platform, which has a version of its own: `0.166.0-linux-x64`.
fn is_whole(version: &Version) -> bool {
    let pre = version.pre.as_str();
    pre.is_empty() || (is_alpha(version) && !pre.contains('-'))
}

fn is_alpha(version: &Version) -> bool {
    version.pre.as_str().starts_with("alpha")
}

/// The floor, the newest patch of every second minor version after it, the pinned one, the newest stable one, and the
/// newest alpha. In order.
pub(super) fn choose(all: impl Iterator<Item = Version>) -> anyhow::Result<Vec<Version>> {
    let all: BTreeSet<Version> = all.filter(|version| *version >= FLOOR).collect();
    let stable = || all.iter().filter(|version| version.pre.is_empty());
    let mut newest_patch = BTreeMap::new();
    for version in stable() {
        newest_patch.insert((version.major, version.minor), version.clone());
    }
    let every_second = newest_patch.into_iter().filter(|((major, minor), _)| {
        let since = minor.checked_sub(FLOOR.minor);
        *major == FLOOR.major && since.is_some_and(|since| since > 0 && since % 2 == 0)
    });
    let mut chosen: BTreeSet<Version> = every_second.map(|(_, version)| version).collect();
    chosen.extend([FLOOR, PINNED.parse()?]);
    chosen.extend(stable().next_back().cloned());
    chosen.extend(all.iter().rfind(|version| is_alpha(version)).cloned());
    Ok(chosen.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(texts: &[&str]) -> Vec<Version> {
        let parsed = texts.iter().map(|text| text.parse().unwrap());
        parsed.collect()
    }

    #[test]
    fn chooses_every_second_minor_and_newest() {
        let all = versions(&[
            "0.149.0",
            "0.150.0",
            "0.150.1",
            "0.151.0",
            "0.152.0",
            "0.152.1",
            "0.153.0",
            "0.162.0-alpha.9",
            "0.162.0-alpha.15",
            PINNED,
            "0.169.0",
        ]);
        let expected = versions(&["0.150.0", "0.152.1", "0.162.0-alpha.15", PINNED, "0.169.0"]);
        assert_eq!(choose(all.into_iter()).unwrap(), expected);
    }

    #[test]
    fn platform_packages_are_no_versions() {
        for (text, whole) in [
            ("0.166.0", true),
            ("0.162.0-alpha.15", true),
            ("0.166.0-linux-x64", false),
            ("0.162.0-alpha.15-linux-x64", false),
        ] {
            assert_eq!(is_whole(&text.parse().unwrap()), whole, "{text}");
        }
    }
}
