//! Nasty strings, and what whoever decides gets to see of them.

use super::*;

#[test]
fn threat_11_invisible_characters_are_escaped() {
    for (text, shown) in [
        ("git status --short", "git status --short"),
        ("\u{1b}[2Jls", "<U+001B>[2Jls"),
        ("\u{1b}]0;title\u{7}", "<U+001B>]0;title<U+0007>"),
        ("rm x\rls  ", "rm x<U+000D>ls  "),
        ("ls\u{8}\u{8}rm", "ls<U+0008><U+0008>rm"),
        ("cat safe\u{202e}txt.exe", "cat safe<U+202E>txt.exe"),
        ("a\u{2066}b\u{2069}c", "a<U+2066>b<U+2069>c"),
        ("r\u{200b}m", "r<U+200B>m"),
        ("rm\u{a0}-rf\u{2003}x", "rm<U+00A0>-rf<U+2003>x"),
        ("x\u{3164}y\u{2800}z\u{115f}", "x<U+3164>y<U+2800>z<U+115F>"),
        ("a\u{e0072}b", "a<U+E0072>b"),
        ("a\nb\tc", "a<U+000A>b<U+0009>c"),
        ("\u{fffe}\u{e123}\u{10ffff}", "<U+FFFE><U+E123><U+10FFFF>"),
    ] {
        assert_eq!(effect_line(text), shown);
    }
    assert_eq!(effect("a\n\tb\r\n"), "a\n\tb<U+000D>\n");
}

#[test]
fn threat_11_lookalike_letters_are_escaped() {
    for (text, shown) in [
        ("gіt push", "g<U+0456>t push"),
        ("/etc/pаsswd", "/etc/p<U+0430>sswd"),
        ("/home/сору/x", "/home/<U+0441><U+043E><U+0440><U+0443>/x"),
        ("ｒｍ -rf", "<U+FF52><U+FF4D> -rf"),
        ("𝗋𝗆 x", "<U+1D5CB><U+1D5C6> x"),
        ("/work∕etc", "/work<U+2215>etc"),
        ("rm –rf", "rm <U+2013>rf"),
        ("ls\u{37e} x", "ls<U+037E> x"),
        ("ο.txt", "<U+03BF>.txt"),
        ("ıs", "<U+0131>s"),
        ("cat אב/1", "cat <U+05D0><U+05D1>/1"),
        ("\u{212a}2", "<U+212A>2"),
    ] {
        assert_eq!(effect_line(text), shown, "{text}");
    }
    for honest in [
        "/home/иван/Документы/файл.txt",
        "echo 'ünïcödé 漢字 한국어 ไทย'",
        "Ελληνικά/λόγος",
        "naïve café Größe",
        "a → b ✓",
    ] {
        assert_eq!(effect_line(honest), honest);
    }
}

#[test]
fn threat_11_nothing_hides_behind_padding() {
    let spaces = format!("ls{}; rm -rf /", " ".repeat(5_000));
    assert_eq!(effect_line(&spaces), "ls<5000 spaces>; rm -rf /");
    let lines = format!("ls\n{}rm -rf /", "\n".repeat(300));
    let shown = effect(&lines);
    assert!(
        shown.starts_with("ls<301 blanks with 301 line ends, sha256 "),
        "{shown}"
    );
    assert!(shown.ends_with(">\nrm -rf /"), "{shown}");
    let row = format!("echo {}; rm", "a".repeat(9_000));
    assert_eq!(effect_line(&row), "echo <9000 times U+0061>; rm");
    let tabs = format!("ls{}; rm", " \t".repeat(400));
    assert!(effect(&tabs).starts_with("ls<800 blanks with 0 line ends, sha256 "));
    let prose = "+It’s done — mostly… ‘a; b’";
    let marked = "+It’s done — mostly… <U+2018>a; b<U+2019>";
    assert_eq!(effect(prose), marked);
    let honest = format!("fn x() {{\n{}deep();\n\n\n}}", " ".repeat(48));
    assert_eq!(effect(&honest), honest);
}

#[test]
fn threat_11_long_text_carries_hash() {
    let long = |secret: &str| {
        let filler: String = (0..60_000).map(|n| format!("{n} ")).collect();
        format!("first {filler}{secret}{filler}last")
    };
    let (one, other) = (effect(&long("x")), effect(&long("y")));
    assert!(one.chars().count() < SHOWN_MAX_CHARS + 200);
    assert!(one.starts_with("first 0 1 ") && one.ends_with(" last"));
    assert!(one.contains(" characters are not shown here, sha256 "));
    assert_ne!(one, other);
}

#[test]
fn threat_11_escaping_is_unambiguous() {
    for (text, shown) in [
        ("a<U+202E>b", "a<U+003C>U+202E>b"),
        ("ls<5000 spaces>", "ls<U+003C>5000 spaces>"),
        ("a<b <html>", "a<b <html>"),
    ] {
        assert_eq!(effect_line(text), shown);
    }
    let pieces = [
        "<", "U+", "0041", ">", "5 spaces", "\u{202e}", " ", "a", "\n", "і", "t", "\\",
    ];
    let mut seen = std::collections::HashMap::new();
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        let longer = texts
            .iter()
            .flat_map(|text| pieces.map(|piece| format!("{text}{piece}")));
        texts = longer.collect();
        for text in &texts {
            if let Some(other) = seen.insert(effect_line(text), text.clone()) {
                assert_eq!(&other, text);
            }
        }
    }
}

#[test]
fn question_text_keeps_letters_escapes_controls() {
    let question = "Какой цвет? أي لون? gіt\u{202e}\n- one";
    assert_eq!(words(question), "Какой цвет? أي لون? gіt<U+202E>\n- one");
}
