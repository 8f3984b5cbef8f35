//! Which characters can't be seen, turn the text around, or pass for others. Ranges, not a table of all look-alikes:
//! what is listed too much is shown as its number, which harms nobody.

/// C0, C1, DEL, and every character that hides or reorders text or leaves no trace of itself.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
        || is_unassigned_for_good(c)
}

/// Noncharacters and private use: every font shows them as it likes.
fn is_unassigned_for_good(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..='\u{10ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// In commands and paths these pass for ASCII characters, or turn the line around, wherever they stand.
pub(super) fn is_always_odd(c: char) -> bool {
    is_right_to_left(c)
        || matches!(c,
            // Slashes, dots, dashes, quotes and other signs that are not the ones they look like.
            '\u{b4}' | '\u{2b9}'..='\u{2df}' | '\u{334}'..='\u{338}' | '\u{37e}' | '\u{387}' | '\u{589}'
            | '\u{5c3}' | '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '\u{2024}'..='\u{2027}'
            | '\u{2032}'..='\u{2037}' | '\u{2039}' | '\u{203a}' | '\u{2044}' | '\u{204e}' | '\u{2052}'
            | '\u{2053}' | '\u{20e5}' | '\u{2212}' | '\u{2215}'..='\u{2217}' | '\u{2223}' | '\u{2236}'
            | '\u{223c}' | '\u{2758}' | '\u{27cb}' | '\u{27cd}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}'
            | '\u{2cba}' | '\u{2cbb}' | '\u{a4f8}'..='\u{a4ff}' | '\u{a789}' | '\u{a78c}' | '\u{fe50}'..='\u{fe6f}'
            // Letters and digits in other clothes: fullwidth, mathematical, letterlike, Roman numerals.
            | '\u{1d00}'..='\u{1d7f}' | '\u{2100}'..='\u{218f}' | '\u{24b6}'..='\u{24e9}'
            | '\u{ff00}'..='\u{ff65}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f100}'..='\u{1f1e5}')
}

fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Letters that belong in no word with Latin ones: some of them look the same.
pub(super) fn is_odd_beside_latin(c: char) -> bool {
    matches!(c,
        '\u{131}' | '\u{17f}' | '\u{1c0}'..='\u{1c3}' | '\u{250}'..='\u{2af}' | '\u{370}'..='\u{58f}'
        | '\u{10a0}'..='\u{10ff}' | '\u{13a0}'..='\u{13ff}' | '\u{1c80}'..='\u{1c8f}' | '\u{1f00}'..='\u{1fff}'
        | '\u{2c80}'..='\u{2cff}' | '\u{2d00}'..='\u{2d2f}' | '\u{2de0}'..='\u{2dff}' | '\u{a4d0}'..='\u{a4f7}'
        | '\u{a640}'..='\u{a69f}' | '\u{ab30}'..='\u{abbf}' | '\u{10280}'..='\u{1044f}' | '\u{104b0}'..='\u{104ff}')
}

/// Letters of Greek, Cyrillic and Armenian that can hardly be distinguished from Latin ones: a word of nothing else may pass for
/// a Latin word.
pub(super) fn looks_latin(c: char) -> bool {
    const ALIKE: &str = "αγικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ\
        абвгеорсухкптАВЕЗКМНОРСТУХьіјѕһԁԍԛԝӏӀґєїІЈЅԌԚԜүҮ\
        աոսօցհզյԱՈՍՕԼ";
    c.is_ascii_digit() || ALIKE.contains(c)
}
