//! Classic BPF instructions with places to jump to (linux/filter.h, `Documentation/networking/filter.rst` of Linux).

use socket2::SockFilter;

/// The kernel takes no longer program (`BPF_MAXINSNS`).
pub(super) const MOST_INSTRUCTIONS: usize = 4096;

const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MISC: u16 = 0x07;
const WORD: u16 = 0x00;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
const ABSOLUTE: u16 = 0x20;
const INDIRECT: u16 = 0x40;
const MEMORY: u16 = 0x60;
const HEADER_LENGTH: u16 = 0xa0;

/// How the accumulator is changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Add(u32),
    AddX,
    SubtractX,
    OrX,
    And(u32),
    ShiftLeft(u32),
    ShiftRight(u32),
}

/// What the accumulator is compared for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Test {
    Equals(u32),
    AtLeast(u32),
    HasAnyOf(u32),
}

/// How much is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
}

/// A place in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

#[derive(Debug, Clone, Copy)]
enum Line {
    Plain {
        code: u16,
        k: u32,
    },
    /// Jumps over the next line where the test's outcome is `skips_when`.
    Skip {
        code: u16,
        k: u32,
        skips_when: bool,
    },
    Goto(Label),
}

/// A program being written. Jumps lead forward only, which is all that the kernel allows.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    lines: Vec<Line>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len().saturating_sub(1))
    }

    /// The label stands here.
    pub(super) fn place(&mut self, label: Label) {
        let here = self.lines.len();
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(here);
        }
    }

    fn plain(&mut self, code: u16, k: u32) {
        self.lines.push(Line::Plain { code, k });
    }

    /// A = packet[at]. A load beyond the packet's end ends the program, and the packet is left out.
    pub(super) fn load(&mut self, size: Size, at: u32) {
        self.plain(LD | ABSOLUTE | size.bits(), at);
    }

    /// A = packet[X + at].
    pub(super) fn load_at_x(&mut self, size: Size, at: u32) {
        self.plain(LD | INDIRECT | size.bits(), at);
    }

    /// A = the number.
    pub(super) fn set(&mut self, number: u32) {
        self.plain(LD, number);
    }

    /// X = the number.
    pub(super) fn set_x(&mut self, number: u32) {
        self.plain(LDX, number);
    }

    /// X = 4 * (packet[at] & 15): an IPv4 header's length.
    pub(super) fn load_header_length(&mut self, at: u32) {
        self.plain(LDX | HEADER_LENGTH | BYTE, at);
    }

    pub(super) fn store(&mut self, slot: u32) {
        self.plain(ST, slot);
    }

    pub(super) fn store_x(&mut self, slot: u32) {
        self.plain(STX, slot);
    }

    pub(super) fn recall(&mut self, slot: u32) {
        self.plain(LD | MEMORY, slot);
    }

    pub(super) fn recall_x(&mut self, slot: u32) {
        self.plain(LDX | MEMORY, slot);
    }

    /// X = A.
    pub(super) fn copy_to_x(&mut self) {
        self.plain(MISC, 0);
    }

    pub(super) fn change(&mut self, change: Change) {
        const X: u16 = 0x08;
        let (code, k) = match change {
            Change::Add(number) => (0x00, number),
            Change::AddX => (X, 0),
            Change::SubtractX => (0x10 | X, 0),
            Change::OrX => (0x40 | X, 0),
            Change::And(number) => (0x50, number),
            Change::ShiftLeft(bits) => (0x60, bits),
            Change::ShiftRight(bits) => (0x70, bits),
        };
        self.plain(ALU | code, k);
    }

    pub(super) fn goto(&mut self, label: Label) {
        self.lines.push(Line::Goto(label));
    }

    /// Goes there if it is so. (A conditional jump reaches 255 lines only, so it jumps over one that reaches everything.)
    pub(super) fn if_so(&mut self, test: Test, label: Label) {
        let (code, k) = test.bits();
        self.lines.push(Line::Skip { code, k, skips_when: false });
        self.goto(label);
    }

    /// Goes there if it is not so.
    pub(super) fn unless(&mut self, test: Test, label: Label) {
        let (code, k) = test.bits();
        self.lines.push(Line::Skip { code, k, skips_when: true });
        self.goto(label);
    }

    /// Ends with so many bytes of the packet.
    pub(super) fn finish_with(&mut self, bytes: u32) {
        self.plain(RET, bytes);
    }

    /// The program; `None` where it is too long, or a jump leads nowhere.
    pub(super) fn assemble(self) -> Option<Vec<SockFilter>> {
        if self.lines.len() > MOST_INSTRUCTIONS {
            return None;
        }
        let instruction = |(at, line): (usize, &Line)| match *line {
            Line::Plain { code, k } => Some(SockFilter::new(code, 0, 0, k)),
            Line::Skip { code, k, skips_when: true } => Some(SockFilter::new(JMP | code, 1, 0, k)),
            Line::Skip { code, k, skips_when: false } => Some(SockFilter::new(JMP | code, 0, 1, k)),
            Line::Goto(label) => {
                let ahead = (*self.labels.get(label.0)?)?.checked_sub(at.saturating_add(1))?;
                Some(SockFilter::new(JMP, 0, 0, u32::try_from(ahead).ok()?))
            }
        };
        self.lines.iter().enumerate().map(instruction).collect()
    }
}

impl Size {
    fn bits(self) -> u16 {
        match self {
            Self::Byte => BYTE,
            Self::Half => HALF,
            Self::Word => WORD,
        }
    }
}

impl Test {
    fn bits(self) -> (u16, u32) {
        match self {
            Self::Equals(number) => (0x10, number),
            Self::AtLeast(number) => (0x30, number),
            Self::HasAnyOf(bits) => (0x40, bits),
        }
    }
}
