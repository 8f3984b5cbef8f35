//! A process that outlives whoever starts it: in a process group of its own, with nothing of the caller's terminal.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a program whose stderr goes to `log`. Ctrl-C at the caller's terminal does not reach it.
pub fn start_detached(program: &Path, args: &[OsString], log: File) -> io::Result<Child> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
}
