//! The rules about the shape of a file: it says what it is for, and neither it nor a
//! function in it is too long to hold in the head.

use super::Finding;
use super::source::Source;

/// Lines of a file, its tests not counted. The aim is less than half of it.
pub const MAX_FILE_LINES: usize = 700;

/// Lines of a file that is a test.
pub const MAX_TEST_FILE_LINES: usize = 1500;

/// Lines of a function, from `fn` to its closing brace. The aim is 70.
pub const MAX_FUNCTION_LINES: usize = 90;

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut find = |line, what: &str| findings.push(Finding::new(&source.path, line, what));
    if !opens_with_doc(&source.text) {
        find(
            1,
            "open the file with `//!`: what it is for, and what does not belong here",
        );
    }
    let lines = source.counted_lines();
    let cap = if source.is_test {
        MAX_TEST_FILE_LINES
    } else {
        MAX_FILE_LINES
    };
    if lines > cap {
        find(
            cap,
            &format!("{lines} lines, {cap} are allowed; split it by concept"),
        );
    }
    for function in source.functions() {
        if function.lines > MAX_FUNCTION_LINES {
            let what = format!(
                "`{}` has {} lines, {MAX_FUNCTION_LINES} are allowed; split it by step",
                function.name, function.lines
            );
            find(function.line, &what);
        }
    }
}

fn opens_with_doc(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let doc = first.and_then(|line| line.strip_prefix("//!"));
    doc.is_some_and(|doc| !doc.trim().is_empty())
}
