//! `cargo xtask dist`: what operators install, in target/dist with checksums. Nothing is published.
//!
//! Two runs on one commit write the same bytes: archives are sorted and have the commit's time, and the program holds no
//! path of this machine. The image's lowest layer is what Debian's mirror had that day.

mod archive;
mod build;
mod check;
mod deb;
mod image;
mod npm;
mod product;
mod release;
mod sbom;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

pub use check::check;

use self::build::{Platform, Program, SERVICE};
use self::product::Product;

/// What is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dist {
    /// Packs this program instead of building one.
    pub binary: Option<PathBuf>,
    /// Leaves the image out, which needs Debian's mirror and half a gigabyte.
    pub no_image: bool,
    /// Installs what was made, instead of making it.
    pub check: bool,
}

/// Makes everything.
///
/// # Errors
///
/// Names what failed; what was written before stays, without SHA256SUMS.
pub fn run(root: &Path, wanted: &Dist) -> anyhow::Result<()> {
    let Platform {
        target,
        debian,
        node,
    } = Platform::here()?;
    let version = release::version(root)?;
    let epoch = epoch(root)?;
    let directory = root.join("target/dist");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let (whole, service) = match &wanted.binary {
        Some(path) => {
            let given = Program {
                path: path.clone(),
                symbols: None,
            };
            (given.clone(), given)
        }
        None => (
            build::program(root, "whole", &[], epoch)?,
            build::program(root, "service", &SERVICE, epoch)?,
        ),
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    let product = Product::read(root, &whole.path, &version, epoch)?;
    let prefix = format!("codex-bridge-{version}-{target}");
    let tarball = product.tarball().tar_gz(&format!("{prefix}/"), epoch)?;
    write(&format!("{prefix}.tar.gz"), &tarball)?;
    let readme = fs::read_to_string(root.join("README.md"))?;
    let npm = format!("codex-bridge-npm-{version}");
    write(&format!("{npm}.tgz"), &npm::launcher(&product, &readme)?)?;
    let platform = npm::platform(&product, node)?;
    write(&format!("{npm}-linux-{node}.tgz"), &platform)?;
    let served = Product::read(root, &service.path, &version, epoch)?;
    let package = deb::package(&served, debian)?;
    write(&format!("codex-bridge_{version}_{debian}.deb"), &package)?;
    if !wanted.no_image {
        let image = image::archive(root, &served, debian)?;
        write(
            &format!("codex-bridge-{version}-image-{debian}.tar"),
            &image,
        )?;
    }
    for (program, name) in [(&whole, "whole"), (&service, "service")] {
        if let Some(symbols) = &program.symbols {
            write(&format!("{prefix}-{name}.debug"), &fs::read(symbols)?)?;
        }
    }
    for (features, name) in [(&[][..], "whole"), (&SERVICE, "service")] {
        let bill = sbom::document(root, target, features)?;
        write(
            &format!("codex-bridge-{version}-{name}.cdx.json"),
            bill.as_bytes(),
        )?;
    }
    write(
        "RELEASE-NOTES.md",
        release::notes(root, &version)?.as_bytes(),
    )?;
    let sums = sums(&directory)?;
    write("SHA256SUMS", sums.as_bytes())?;
    println!("{}\n{sums}", directory.display());
    Ok(())
}

/// The time of everything: SOURCE_DATE_EPOCH, or that of the commit.
fn epoch(root: &Path) -> anyhow::Result<u64> {
    if let Ok(named) = env::var("SOURCE_DATE_EPOCH") {
        let why = || format!("SOURCE_DATE_EPOCH is {named:?}, and not a number of seconds");
        return named.parse().with_context(why);
    }
    let said = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    let said = String::from_utf8(said.stdout)?;
    match said.trim().parse() {
        Ok(epoch) => Ok(epoch),
        Err(_) => bail!("git knows no commit here: set SOURCE_DATE_EPOCH"),
    }
}

/// As `sha256sum` writes and checks them.
fn sums(directory: &Path) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let digest = archive::sha256(&fs::read(entry.path())?)?;
        lines.push((entry.file_name().to_string_lossy().into_owned(), digest));
    }
    lines.sort();
    let lines = lines
        .iter()
        .map(|(name, digest)| format!("{digest}  {name}\n"));
    Ok(lines.collect())
}
