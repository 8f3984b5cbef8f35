//! Which Codex `demo` and `drill` use: the one given, a usable one on the PATH, or the pinned version installed privately
//! with npm. Never a global installation; `run` never installs anything.

use anyhow::Context;
use bridge_daemon::config::Environment;
use bridge_daemon::term::{Paint, escape_line};
use bridge_host::binary::{self, install};
use bridge_host::version::{PINNED, Version};
use std::path::{Path, PathBuf};

/// Finds it; `say` reports each step.
pub(crate) async fn find_or_install(
    explicit: Option<&Path>,
    environment: &Environment,
    paint: Paint,
    say: fn(&str),
) -> anyhow::Result<PathBuf> {
    if let Some(path) = explicit {
        return Ok(binary::find(Some(path), environment.program_vars())?.path);
    }
    let found = binary::find(
        environment.codex_bin().as_deref(),
        environment.program_vars(),
    );
    if let Ok(codex) = found {
        say(&format!(
            "Using Codex {} at {}",
            codex.version,
            codex.path.display()
        ));
        return Ok(codex.path);
    }
    let version: Version = PINNED.parse()?;
    let tools = private_dir(environment)?;
    if let Some(path) = install::installed(&tools, &version) {
        say(&format!(
            "Using the private Codex {version} in {}",
            tools.display()
        ));
        return Ok(path);
    }
    say(&format!(
        "No usable Codex is on the PATH. Codex {version} (about 400 MB unpacked) is now fetched with npm into\n  {}\nand nowhere else; remove that directory when you no longer want it. `--codex-bin PATH` avoids this.",
        tools.display()
    ));
    let env = environment.all().to_vec();
    let installed = tokio::task::spawn_blocking(move || {
        let mut line = |line: &str| say(&format!("  {}", paint.dim(&escape_line(line))));
        install::install(&tools, &version, &env, &mut line)
    })
    .await?;
    Ok(installed?)
}

/// Beside the build when run from a Cargo target directory, else in the user's cache.
fn private_dir(environment: &Environment) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let target = exe.parent().and_then(Path::parent);
    if let Some(target) = target.filter(|target| target.join("CACHEDIR.TAG").exists()) {
        return Ok(target.join("tools"));
    }
    let cache = environment
        .cache_dir()
        .context("no cache directory: set HOME or XDG_CACHE_HOME")?;
    Ok(cache.join("codex-bridge"))
}
