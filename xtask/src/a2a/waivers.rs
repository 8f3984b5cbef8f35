//! Requirements that a kit tests in a way that contradicts the specification, or that it can't see here: each with the
//! section that says so. A waiver that is not needed is reported, so that none outlives its reason.

/// Why a failure is not ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiver {
    /// What the kit calls it.
    pub(super) requirement: &'static str,
    /// The specification's section, and what it says.
    pub(super) reason: &'static str,
}

/// For branch 1.0-dev, against specification 1.0.1.
pub(super) const KIT_10: &[Waiver] = &[Waiver {
    requirement: "CARD-STRUCT-001",
    reason: "3.6.1: clients of 1.0 MUST send A2A-Version with each request; 3.6.2: agents MUST read its absence as 0.3. The \
kit fetches the card without it, gets the card that clients of 0.3 can read too, and allows no field that its schema \
does not have, where 5.7 says that unrecognized fields SHOULD be ignored. With `A2A-Version: 1.0` the card has none",
}];

/// For branch 0.3.x, category `mandatory`, against specification 0.3.0.
pub(super) const KIT_03: &[Waiver] = &[];
