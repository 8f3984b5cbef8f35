//! How the arguments of directives read, and how large they may be. Pure.
//! None means that the text is not an argument, and so its word not a directive.
//! Which words there are, and how far an argument reaches, is `script`'s business.

use std::time::Duration;

use super::step::{Act, Call, Ending, Refusal, Usage};

/// The longest `sleep:` and the longest any request is held; nothing waits for ever.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The most deltas of one `stream:`.
const MOST_DELTAS: usize = 100_000;
/// The largest `big:`, in bytes.
pub(super) const BIGGEST: usize = 64 << 20;

pub(super) fn or<'a>(token: &'a str, otherwise: &'a str) -> &'a str {
    if token.is_empty() { otherwise } else { token }
}

pub(super) fn within(token: &str, most: usize) -> Option<usize> {
    token.parse().ok().filter(|n| *n <= most)
}

pub(super) fn seconds(token: &str) -> Option<Duration> {
    wait(token.parse().ok()?)
}

fn wait(seconds: f64) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    (wait <= LONGEST_WAIT).then_some(wait)
}

/// `HEAD[:N]`: the head, and the count if there is one.
fn counted(token: &str) -> Option<(&str, Option<u32>)> {
    match token.split_once(':') {
        None => Some((token, None)),
        Some((head, times)) => Some((head, Some(times.parse().ok()?))),
    }
}

pub(super) fn fail(token: &str) -> Option<Refusal> {
    let (code, times) = counted(token)?;
    let code = code.parse().ok().filter(|c| (400..600).contains(c))?;
    Some(Refusal::Status { code, times })
}

pub(super) fn usage_limit(token: &str) -> Option<Refusal> {
    let (seconds, times) = counted(token)?;
    let resets_in = seconds.parse().ok()?;
    Some(Refusal::UsageLimit { resets_in, times })
}

pub(super) fn breaking(token: &str) -> Option<Ending> {
    let times = match token {
        "" => None,
        count => Some(count.parse().ok()?),
    };
    Some(Ending::Broken { times })
}

pub(super) fn stream(token: &str) -> Option<Act> {
    let (count, gap) = token.split_once(':').unwrap_or((token, "0"));
    let millis: f64 = gap.parse().ok()?;
    Some(Act::Stream {
        deltas: within(or(count, "5"), MOST_DELTAS)?,
        gap: wait(millis / 1000.0)?,
    })
}

pub(super) fn usage(token: &str) -> Option<Usage> {
    let (input, output) = token.split_once(':')?;
    Some(Usage {
        input: input.parse().ok()?,
        output: output.parse().ok()?,
    })
}

pub(super) fn shell(argument: &str, escalate: bool) -> Call {
    Call::Shell {
        command: argument.to_owned(),
        escalate,
    }
}

pub(super) fn patch(argument: &str) -> Call {
    let (file, content) = argument.split_once(':').unwrap_or((argument, ""));
    Call::Patch {
        file: or(file, "mock.txt").to_owned(),
        content: or(content, "hello").to_owned(),
    }
}

/// `FILE:LINE`, both of one plain word, so that a shell takes them as they stand.
pub(super) fn append(token: &str) -> Option<Call> {
    let (file, line) = token.split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let fits = |word: &str| !word.is_empty() && !word.starts_with('-') && word.chars().all(plain);
    (fits(file) && fits(line)).then(|| Call::Append {
        file: file.to_owned(),
        line: line.to_owned(),
    })
}

/// `NAME:JSON`; a tool has a name of one word.
pub(super) fn function(namespace: Option<&str>, argument: &str) -> Option<Call> {
    let (name, arguments) = argument.split_once(':').unwrap_or((argument, ""));
    let one_word = !name.is_empty() && !name.contains(char::is_whitespace);
    one_word.then(|| Call::Function {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        arguments: or(arguments.trim(), "{}").to_owned(),
    })
}

pub(super) fn namespaced(argument: &str) -> Option<Call> {
    let (namespace, rest) = argument.split_once(':')?;
    function(Some(namespace), rest)
}
