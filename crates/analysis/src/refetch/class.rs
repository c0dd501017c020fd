//! The classes.

/// What a GetPage (2) was, compared with the latest earlier fetch (1) of the same page by the same cache in the same
/// epoch. The first condition that holds decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No earlier fetch was seen in this epoch.
    First,
    /// 2 arrived before 1's answer began: two backends, or two prefetches, wanted the page at the same time.
    InFlight,
    /// request_lsn1 <= request_lsn2, nms2 <= nms1, 2 answered `ok`, content equal: the promise of 2 covers all versions
    /// that 1 can have got.
    RedundantR1,
    /// request_lsn1 concrete and <= request_lsn2, nms2 <= request_lsn1, 2 `ok`, content equal: 1 got the version at
    /// request_lsn1, and the promise of 2 reaches back to it.
    RedundantR2,
    /// Both ask for the latest, nms2 <= W, 2 `ok`, content equal; W is the highest LSN that the page service is known to
    /// have reached before 1 arrived.
    RedundantR3,
    /// R1 or R2 but for the content, the page changed after nms2, and 2's own connection had shown before that it knew of
    /// so late an LSN: a promise was broken.
    Contradiction,
    /// R1 or R2 but for the content, otherwise: a stale prefetch, or a standby's race.
    Raced,
    /// The content is the same; why is not proven.
    SameContent,
    /// The content differs: the page was changed in between.
    Changed,
    /// Anything else. Nothing is claimed of it.
    Unproven,
}

impl Class {
    /// Every class, in the order in which their conditions are tried.
    pub const ALL: &'static [Self] = &[
        Self::First,
        Self::InFlight,
        Self::RedundantR1,
        Self::RedundantR2,
        Self::RedundantR3,
        Self::Contradiction,
        Self::Raced,
        Self::SameContent,
        Self::Changed,
        Self::Unproven,
    ];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::InFlight => "in_flight",
            Self::RedundantR1 => "redundant_r1",
            Self::RedundantR2 => "redundant_r2",
            Self::RedundantR3 => "redundant_r3",
            Self::Contradiction => "contradictions",
            Self::Raced => "raced",
            Self::SameContent => "same_content",
            Self::Changed => "changed",
            Self::Unproven => "unproven",
        }
    }

    /// Whether the fetch is proven to have brought a page that had not changed.
    pub const fn is_redundant(self) -> bool {
        matches!(self, Self::RedundantR1 | Self::RedundantR2 | Self::RedundantR3)
    }
}
