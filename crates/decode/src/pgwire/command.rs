//! The commands of a page service (Neon's `pageserver/src/page_service.rs`, `PageServiceCmd`).

use record::{Protocol, TenantId, TenantTimeline, TimelineId};

/// What a query or a statement asks the page service to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Opens a pagestream. The owner is `None` where the text was cut off before its end.
    Pagestream { version: Protocol, owner: Option<TenantTimeline> },
    /// A compute fetches its base backup: its cache is empty from here on.
    Basebackup { owner: TenantTimeline },
    /// Anything else.
    Other,
}

impl Command {
    /// Reads the body of a `Q` message: the command and a zero byte.
    pub(crate) fn parse_query(body: &[u8], body_bytes: u32) -> Self {
        let text = body.split(|&byte| byte == 0).next().unwrap_or_default();
        // Without the zero the text was cut, and its last word may be half of one.
        let is_whole = text.len() < body.len() || body.len() as u64 >= u64::from(body_bytes);
        Self::parse(text, is_whole)
    }

    /// Reads the body of a `P` (Parse) message: the statement's name and its text.
    pub(crate) fn parse_statement(body: &[u8]) -> Self {
        let mut parts = body.splitn(3, |&byte| byte == 0);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(_name), Some(text), Some(_rest)) => Self::parse(text, true),
            _ => Self::Other,
        }
    }

    fn parse(text: &[u8], is_whole: bool) -> Self {
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(name) = words.next() else { return Self::Other };
        if !is_whole && name.len() == text.trim_ascii_start().len() {
            // The command's own word may be cut: `pagestream` of `pagestream_v3`.
            return Self::Other;
        }
        let is = |command: &str| name.eq_ignore_ascii_case(command.as_bytes());
        let version = match () {
            () if is("pagestream_v3") => Protocol::V3,
            () if is("pagestream_v2") => Protocol::V2,
            () if is("pagestream") => Protocol::V1,
            () if is("basebackup") => {
                let owner = parse_owner(words.next(), words.next());
                return owner.map_or(Self::Other, |owner| Self::Basebackup { owner });
            }
            () => return Self::Other,
        };
        let owner = parse_owner(words.next(), words.next());
        match (owner, is_whole) {
            // A tenant or timeline that is none: the server will refuse it.
            (None, true) => Self::Other,
            (owner, _) => Self::Pagestream { version, owner },
        }
    }
}

/// Exactly 32 hex digits each; a cut word has fewer.
fn parse_owner(tenant: Option<&[u8]>, timeline: Option<&[u8]>) -> Option<TenantTimeline> {
    let tenant = TenantId::from_hex(tenant?).ok()?;
    let timeline = TimelineId::from_hex(timeline?).ok()?;
    Some(TenantTimeline { tenant, timeline })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "3aabbf1a5d0f4e2a9d3c1b2a49505101 11223344556677889900aabbccdd0101";

    fn owner() -> TenantTimeline {
        let (tenant, timeline) = OWNER.split_once(' ').unwrap();
        TenantTimeline { tenant: tenant.parse().unwrap(), timeline: timeline.parse().unwrap() }
    }

    fn query(text: &str) -> Command {
        Command::parse_query(text.as_bytes(), text.len() as u32)
    }

    #[test]
    fn the_command_word_is_read_in_either_case() {
        let expected = Command::Pagestream { version: Protocol::V3, owner: Some(owner()) };
        assert_eq!(query(&format!("pagestream_v3 {OWNER}\0")), expected);
        assert_eq!(query(&format!("PageStream_V3  {OWNER} \0")), expected);
        let first = Command::Pagestream { version: Protocol::V1, owner: Some(owner()) };
        assert_eq!(query(&format!("pagestream {OWNER}\0")), first);
    }

    #[test]
    fn what_only_looks_like_it_is_something_else() {
        for text in [
            "select 'pagestream_v3 x y'\0",
            "pagestream_v9 a b\0",
            "pagestream_v3 zz yy\0",
            "pagestream_v2\0",
            "\0",
            "",
        ] {
            assert_eq!(query(text), Command::Other, "{text}");
        }
        assert_eq!(query(&format!("pagestream_v9 {OWNER}\0")), Command::Other);
    }

    #[test]
    fn a_command_cut_by_the_snap_length_names_nobody() {
        let text = format!("pagestream_v3 {OWNER}\0");
        for cut in "pagestream_v3 ".len()..text.len() - 1 {
            let command = Command::parse_query(&text.as_bytes()[..cut], text.len() as u32);
            assert_eq!(command, Command::Pagestream { version: Protocol::V3, owner: None }, "cut at {cut}");
        }
    }

    #[test]
    fn a_base_backup_names_its_timeline() {
        let text = format!("basebackup {OWNER} 0/16960E8 --gzip");
        let statement = [b"\0", text.as_bytes(), b"\0\0\0"].concat();
        assert_eq!(Command::parse_statement(&statement), Command::Basebackup { owner: owner() });
        assert_eq!(Command::parse_statement(b"\0basebackup"), Command::Other);
    }
}
