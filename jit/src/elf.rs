//! Just enough of ELF to name the symbols an object defines and those it needs from elsewhere.

const SECTION_SYMTAB: u32 = 2;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;

/// Names in an object's symbol tables.
#[derive(Default)]
pub(crate) struct Symbols<'a> {
    pub defined: Vec<&'a str>,
    pub undefined: Vec<&'a str>,
}

/// The symbols of a 64-bit little-endian object, or `None` if it is no such file.
pub(crate) fn symbols(object: &[u8]) -> Option<Symbols<'_>> {
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let sections_at = usize::try_from(u64_at(object, 0x28)?).ok()?;
    let count = usize::from(u16_at(object, 0x3c)?);
    let section = |index: usize| {
        let at = sections_at.checked_add(index.checked_mul(SECTION_HEADER)?)?;
        object.get(at..at.checked_add(SECTION_HEADER)?)
    };
    let contents = |header: &[u8]| {
        let at = usize::try_from(u64_at(header, 0x18)?).ok()?;
        let size = usize::try_from(u64_at(header, 0x20)?).ok()?;
        object.get(at..at.checked_add(size)?)
    };
    let mut symbols = Symbols::default();
    for index in 0..count {
        let header = section(index)?;
        if u32_at(header, 4)? != SECTION_SYMTAB {
            continue;
        }
        let strings = contents(section(u32_at(header, 0x28)? as usize)?)?;
        for symbol in contents(header)?.chunks_exact(SYMBOL) {
            let (name, section) = (u32_at(symbol, 0)? as usize, u16_at(symbol, 6)?);
            if name != 0 {
                let bytes = strings.get(name..)?.split(|&b| b == 0).next()?;
                let names = if section == 0 { &mut symbols.undefined } else { &mut symbols.defined };
                names.push(std::str::from_utf8(bytes).ok()?);
            }
        }
    }
    Some(symbols)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
