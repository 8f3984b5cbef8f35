//! The hidden commands `keeper` and `keeper-exec`: argument reading only, the work is in `bridge-host`.

use crate::cli::{KeeperArgs, KeeperExecArgs};
use bridge_core::value::Transport;
use bridge_host::keeper::{KeeperOptions, exec_codex};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn keep(args: KeeperArgs) -> ExitCode {
    let mut codex = args.codex.into_iter();
    let (Ok(transport), Some(binary)) = (args.transport.parse::<Transport>(), codex.next()) else {
        eprintln!("keeper: unknown transport {}", args.transport);
        return ExitCode::FAILURE;
    };
    let options = KeeperOptions {
        directory: args.directory,
        transport,
        linger: Duration::from_millis(args.linger_ms),
        prompt_bytes: args.prompt_bytes,
        codex: PathBuf::from(binary),
        args: codex.collect(),
    };
    match bridge_host::keeper::keep(&options) {
        Ok(code) => ExitCode::from(u8::try_from(code.clamp(0, 255)).unwrap_or(1)),
        Err(error) => {
            eprintln!("keeper: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn exec(args: &KeeperExecArgs) -> ExitCode {
    if let Some((binary, rest)) = args.codex.split_first() {
        let error = exec_codex(Path::new(binary), rest);
        eprintln!("start {binary}: {error}");
    }
    ExitCode::from(127)
}
