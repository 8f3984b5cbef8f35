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
pub(super) const KIT_10: &[Waiver] = &[];

/// For branch 0.3.x, category `mandatory`, against specification 0.3.0.
pub(super) const KIT_03: &[Waiver] = &[];
