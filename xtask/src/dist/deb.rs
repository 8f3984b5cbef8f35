//! The Debian package: program, unit, pages and completions; a user of its own; a configuration that dpkg keeps.

use super::archive::{Tree, ar, gzip};
use super::build::needs_glibc;
use super::product::Product;

/// Below it: the scripts that dpkg runs.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("debian/postinst")),
    ("postrm", include_str!("debian/postrm")),
    ("prerm", include_str!("debian/prerm")),
];
/// Asked of the operator before an upgrade replaces them.
const CONFFILES: &str = "/etc/codex-bridge/codex-bridge.toml\n";

/// The whole package.
pub(super) fn package(product: &Product, architecture: &str) -> anyhow::Result<Vec<u8>> {
    let glibc = needs_glibc(&product.binary)?;
    let mut data = product.system();
    let unit = "usr/lib/systemd/system/codex-bridge.service";
    data.file(unit, 0o644, product.unit.clone());
    let changelog = gzip(&product.changelog)?;
    let doc = "usr/share/doc/codex-bridge/changelog.gz";
    data.file(doc, 0o644, changelog);
    let mut control = Tree::default();
    control.file(
        "control",
        0o644,
        fields(product, architecture, &glibc, data.size()),
    );
    control.file("conffiles", 0o644, CONFFILES);
    for (name, text) in SCRIPTS {
        control.file(name, 0o755, text);
    }
    let (control, data) = (
        control.tar_gz("", product.epoch)?,
        data.tar_gz("", product.epoch)?,
    );
    let members = [
        ("debian-binary", b"2.0\n".as_slice()),
        ("control.tar.gz", &control),
        ("data.tar.gz", &data),
    ];
    Ok(ar(&members, product.epoch))
}

fn fields(product: &Product, architecture: &str, glibc: &str, size: u64) -> String {
    format!(
        "\
Package: codex-bridge
Version: {}
Architecture: {architecture}
Maintainer: codex-bridge <codex-bridge@localhost>
Installed-Size: {}
Depends: libc6 (>= {glibc}), passwd
Recommends: ca-certificates, git
Section: net
Priority: optional
Description: daemon between people and agents and the OpenAI Codex CLI
 Messages from terminals, programs, chats and other agents become turns of
 Codex, and every answer comes back, also after a crash.
 .
{} Codex itself comes from npm.
",
        product.version,
        size.div_ceil(1024),
        match product.has_demo {
            true => " The commands demo and drill are in it.",
            false => " It leaves the commands demo and drill to the tarball and to npm.",
        },
    )
}
