//! Starts this program again, as the same process, with fewer variables in its environment block; the others travel in
//! a file without a name, which is read once and closed before anything else is started.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The variable that says where the others are: `PID:FD`. A process that only inherits it is not meant.
pub const MARKER: &str = "CODEX_BRIDGE_PRIVATE_ENV";
/// More than the kernel lets a program start with.
const HANDED_MAX_BYTES: u64 = 16 * 1024 * 1024;

type EnvVars = Vec<(OsString, OsString)>;

/// Starts the program again with `public` in its environment, and passes `private` on. Returns only if that fails.
pub fn start(public: &[(OsString, OsString)], private: &[(OsString, OsString)]) -> io::Error {
    match hand_over(private).and_then(|file| exec(public, &file)) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Reads the variables handed to this process, by the value of [`MARKER`]; `None` if the marker is for another one.
pub fn receive(marker: &OsStr) -> Option<io::Result<EnvVars>> {
    descriptor(marker).map(received)
}

/// The descriptor that a marker names, if it is meant for this process.
fn descriptor(marker: &OsStr) -> Option<RawFd> {
    let (pid, fd) = marker.to_str()?.split_once(':')?;
    let ours = pid.parse() == Ok(std::process::id());
    fd.parse().ok().filter(|fd| ours && *fd > 2)
}

fn hand_over(private: &[(OsString, OsString)]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"environment", MFdFlags::MFD_CLOEXEC)?);
    for (name, value) in private {
        let line = [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
        file.write_all(&line)?;
    }
    Ok(file)
}

fn exec(public: &[(OsString, OsString)], file: &File) -> io::Result<Infallible> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let start = |program: OsString| {
        let mut args = std::env::args_os();
        let mut command = Command::new(&program);
        command.arg0(args.next().unwrap_or(program));
        command.args(args).env_clear().envs(public.iter().cloned());
        let marker = format!("{}:{}", std::process::id(), file.as_raw_fd());
        command.env(MARKER, marker).exec()
    };
    // By its path the process keeps its name; the file there may have been replaced or removed since.
    let path = std::env::current_exe()?;
    let error = start(path.into_os_string());
    match error.kind() {
        io::ErrorKind::NotFound => Err(start("/proc/self/exe".into())),
        _ => Err(error),
    }
}

/// Reads the variables that the process before us left, once. A descriptor that is not the file of [`hand_over`] belongs to somebody else
/// and is not closed.
fn received(fd: RawFd) -> io::Result<EnvVars> {
    let path = format!("/proc/self/fd/{fd}");
    if !std::fs::read_link(&path)?.starts_with("/memfd:environment (deleted)") {
        return Err(io::Error::other(
            "the descriptor is not the file that was handed over",
        ));
    }
    let mut bytes = Vec::new();
    let read =
        File::open(&path).and_then(|file| file.take(HANDED_MAX_BYTES).read_to_end(&mut bytes));
    nix::unistd::close(fd)?;
    read?;
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> EnvVars {
    let variables = bytes
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty());
    variables
        .filter_map(|line| {
            let equals = line.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (line.get(..equals)?, line.get(equals + 1..)?);
            Some((
                OsString::from_vec(name.to_vec()),
                OsString::from_vec(value.to_vec()),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f2_handed_variables_come_back_whole() {
        let odd = OsString::from_vec(vec![0xff, b'=', b'\n']);
        let given: EnvVars = vec![
            ("A".into(), "b=c".into()),
            ("EMPTY".into(), OsString::new()),
            ("ODD".into(), odd),
        ];
        let file = hand_over(&given).unwrap();
        let raw = file.as_raw_fd();
        // `received` closes the descriptor that it is given.
        let copy = nix::unistd::dup(&file).unwrap();
        let copied = std::os::fd::IntoRawFd::into_raw_fd(copy);
        assert_ne!(raw, copied);
        assert_eq!(received(copied).unwrap(), given);
        // Another test may have the number by now: only an error is certain, and nothing of others is closed.
        assert!(received(copied).is_err(), "it is closed");
    }

    #[test]
    fn f2_ignores_marker_of_other_process() {
        let own = std::process::id();
        let read = |text: String| descriptor(OsStr::new(&text));
        assert_eq!(read(format!("{own}:7")), Some(7));
        for other in [format!("{}:7", own + 1), format!("{own}:1"), "7".to_owned()] {
            assert_eq!(read(other), None);
        }
    }
}
