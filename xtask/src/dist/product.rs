//! What every package holds beside the program, read from the tree and asked of the program itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::archive::{Tree, gzip};

/// Where packages put the program.
const INSTALLED: &str = "/usr/bin/codex-bridge";
/// The configuration of a machine's service.
const CONFIG: &str = "/etc/codex-bridge/codex-bridge.toml";
/// Shells with a completion script, and what its file is called.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "codex-bridge"),
    ("zsh", "_codex-bridge"),
    ("fish", "codex-bridge.fish"),
];

/// A built program and what goes with it.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) version: String,
    /// Seconds since 1970: the time of every file.
    pub(super) epoch: u64,
    pub(super) binary: Vec<u8>,
    /// Manual pages, compressed, by name.
    pub(super) man: Vec<(String, Vec<u8>)>,
    /// By the shell and the name of the file.
    pub(super) completions: Vec<(&'static str, &'static str, Vec<u8>)>,
    /// The unit of the machine's service, for a program in /usr/bin.
    pub(super) unit: String,
    /// Every key, commented out.
    pub(super) config: Vec<u8>,
    pub(super) licence: Vec<u8>,
    pub(super) changelog: Vec<u8>,
    /// Whether the program has the commands `demo` and `drill`.
    pub(super) has_demo: bool,
}

impl Product {
    /// Reads the tree and runs `binary`, which need not be the one that is packed: what it prints is the same.
    pub(super) fn read(
        root: &Path,
        binary: &Path,
        version: &str,
        epoch: u64,
    ) -> anyhow::Result<Self> {
        let program = fs::canonicalize(binary)
            .with_context(|| format!("there is no program {}", binary.display()))?;
        let said = String::from_utf8(said(&program, &["--version"])?)?;
        if said.trim() != format!("codex-bridge {version}") {
            bail!(
                "{} says it is `{}`, and the tree is version {version}",
                binary.display(),
                said.trim()
            );
        }
        let completions = SHELLS.map(|(shell, file)| {
            let script = self::said(&program, &["completions", shell])?;
            anyhow::Ok((shell, file, script))
        });
        Ok(Self {
            version: version.to_owned(),
            epoch,
            man: manual(&program)?,
            completions: completions.into_iter().collect::<Result<_, _>>()?,
            unit: unit(root, &program)?,
            binary: read(&program)?,
            config: config(root)?,
            licence: read(&root.join("LICENSE"))?,
            changelog: read(&root.join("CHANGELOG.md"))?,
            has_demo: self::said(&program, &["help", "demo"]).is_ok(),
        })
    }

    /// The tarball: everything in one directory.
    pub(super) fn tarball(&self) -> Tree {
        let mut tree = Tree::default();
        tree.file("bin/codex-bridge", 0o755, self.binary.clone());
        for (name, page) in &self.man {
            tree.file(&format!("share/man/man1/{name}"), 0o644, page.clone());
        }
        for (shell, file, script) in &self.completions {
            tree.file(
                &format!("completions/{shell}/{file}"),
                0o644,
                script.clone(),
            );
        }
        tree.file("codex-bridge.service", 0o644, self.unit.clone());
        tree.file("codex-bridge.toml", 0o644, self.config.clone());
        tree.file("LICENSE", 0o644, self.licence.clone());
        tree.file("CHANGELOG.md", 0o644, self.changelog.clone());
        tree
    }

    /// The files of a system below `/`, as the Debian package and the image have them.
    pub(super) fn system(&self) -> Tree {
        let mut tree = Tree::default();
        tree.file("usr/bin/codex-bridge", 0o755, self.binary.clone());
        for (name, page) in &self.man {
            tree.file(&format!("usr/share/man/man1/{name}"), 0o644, page.clone());
        }
        for (shell, file, script) in &self.completions {
            let place = match *shell {
                "bash" => "bash-completion/completions",
                "zsh" => "zsh/vendor-completions",
                _ => "fish/vendor_completions.d",
            };
            tree.file(&format!("usr/share/{place}/{file}"), 0o644, script.clone());
        }
        let doc = "usr/share/doc/codex-bridge";
        tree.file(&format!("{doc}/copyright"), 0o644, self.licence.clone());
        tree.file(
            "etc/codex-bridge/codex-bridge.toml",
            0o644,
            self.config.clone(),
        );
        tree
    }
}

/// Every page, compressed as Debian has them.
fn manual(program: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let pages = tempfile::tempdir()?;
    let place = pages
        .path()
        .to_str()
        .context("the temporary directory's name is not UTF-8")?;
    said(program, &["man", place])?;
    let mut found = Vec::new();
    for page in fs::read_dir(pages.path())? {
        let page = page?;
        let name = page.file_name().to_string_lossy().into_owned();
        found.push((format!("{name}.gz"), gzip(&read(&page.path())?)?));
    }
    found.sort();
    Ok(found)
}

/// The unit as `service install --system` writes it, with installed paths and without the mark of a file that the
/// program may replace.
fn unit(root: &Path, program: &Path) -> anyhow::Result<String> {
    let place = tempfile::tempdir()?;
    let config = place.path().join("codex-bridge.toml");
    fs::copy(root.join("docs/codex-bridge.toml"), &config)?;
    let (config, program_path) = (config.display().to_string(), program.display().to_string());
    let args = [
        "--config", &config, "service", "install", "--system", "--print",
    ];
    let printed = String::from_utf8(said(program, &args)?)?;
    let (_, unit) = printed.split_once('\n').context("an empty unit")?;
    for part in [&config, &program_path] {
        if !unit.contains(part.as_str()) {
            bail!("the printed unit does not name {part}");
        }
    }
    Ok(unit
        .replace(&config, CONFIG)
        .replace(&program_path, INSTALLED))
}

/// The documented example. The schema that its first line names for editors is not beside it.
fn config(root: &Path) -> anyhow::Result<Vec<u8>> {
    let text = fs::read_to_string(root.join("docs/codex-bridge.toml"))?;
    let text = text.strip_prefix("#:schema ./codex-bridge.schema.json\n\n");
    Ok(text
        .context("docs/codex-bridge.toml begins otherwise")?
        .into())
}

/// What the program prints, with nothing of this machine's configuration.
fn said(program: &Path, args: &[&str]) -> anyhow::Result<Vec<u8>> {
    let home = tempfile::tempdir()?;
    let output = Command::new(program)
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{} {}: {why}", program.display(), args.join(" "));
    }
    Ok(output.stdout)
}

#[cfg(test)]
impl Product {
    /// One with something of everything.
    pub(super) fn sample() -> Self {
        let text = |text: &str| text.as_bytes().to_vec();
        Self {
            version: "0.1.0".to_owned(),
            epoch: 1_700_000_000,
            binary: text("\x7fELF GLIBC_2.17\0"),
            man: vec![("codex-bridge.1.gz".to_owned(), text("page"))],
            completions: SHELLS
                .map(|(shell, file)| (shell, file, text(shell)))
                .to_vec(),
            unit: "[Unit]\n".to_owned(),
            config: text("# example\n"),
            licence: text("Apache-2.0"),
            changelog: text("# Changelog"),
            has_demo: false,
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
