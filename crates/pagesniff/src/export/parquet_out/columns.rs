//! A row group: the fields of records, column by column.

use std::io::Write;
use std::sync::Arc;

use analysis::render::{Cells, Name, TextCaches, write_fields};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};
use record::{Lsn, Record};

/// Every field under its name. Spark and Trino have no unsigned 64-bit integers: what needs all 64 bits is a decimal.
const SCHEMA: &str = "message record {
    OPTIONAL INT64 time_ns; OPTIONAL INT64 latency_ns; OPTIONAL INT64 transfer_ns; OPTIONAL INT64 depth;
    OPTIONAL BYTE_ARRAY tenant (STRING); OPTIONAL BYTE_ARRAY timeline (STRING); OPTIONAL BYTE_ARRAY attribution (STRING);
    OPTIONAL BYTE_ARRAY kind (STRING); OPTIONAL BYTE_ARRAY key (STRING); OPTIONAL BYTE_ARRAY rel (STRING);
    OPTIONAL INT64 spcnode; OPTIONAL INT64 dbnode; OPTIONAL INT64 relnode; OPTIONAL INT32 forknum; OPTIONAL INT64 blkno;
    OPTIONAL INT32 slru_kind; OPTIONAL INT64 segno;
    OPTIONAL FIXED_LEN_BYTE_ARRAY (9) request_lsn (DECIMAL(20,0));
    OPTIONAL FIXED_LEN_BYTE_ARRAY (9) not_modified_since (DECIMAL(20,0));
    OPTIONAL BYTE_ARRAY status (STRING); OPTIONAL FIXED_LEN_BYTE_ARRAY (9) page_lsn (DECIMAL(20,0));
    OPTIONAL BOOLEAN page_zero; OPTIONAL BYTE_ARRAY page_hash (STRING);
    OPTIONAL BYTE_ARRAY client (STRING); OPTIONAL BYTE_ARRAY server (STRING); OPTIONAL INT32 protocol;
    OPTIONAL FIXED_LEN_BYTE_ARRAY (9) reqid (DECIMAL(20,0)); OPTIONAL INT64 backend_pid; OPTIONAL INT64 seq;
    OPTIONAL INT64 epoch_ns; OPTIONAL BYTE_ARRAY pairing (STRING);
}";

/// Columns that differ from record to record, and mostly by little. All others are few values: a dictionary. So is
/// `page_lsn`, which comes back with every page that is fetched again.
const DELTAS: [(Encoding, &[&str]); 2] = [
    (Encoding::DELTA_BINARY_PACKED, &["time_ns", "latency_ns", "transfer_ns", "depth", "blkno", "seq"]),
    (Encoding::DELTA_BYTE_ARRAY, &["key", "reqid", "request_lsn", "not_modified_since"]),
];

/// The types of all columns.
pub(super) fn schema() -> Result<TypePtr> {
    parse_message_type(SCHEMA).map(Arc::new)
}

/// How columns are encoded.
pub(super) fn properties() -> Result<WriterProperties> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(concat!("pagesniff ", env!("CARGO_PKG_VERSION")).to_owned());
    for (encoding, names) in DELTAS {
        for &name in names {
            let path = ColumnPath::from(name);
            builder = builder.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding);
        }
    }
    Ok(builder.build())
}

/// Whether every number of the record fits its column: times to the year 2262 do.
pub(super) fn fits(record: &Record) -> bool {
    let epoch_ns = record.epoch.map(|epoch| epoch.0);
    let numbers = [Some(record.time.0), record.latency_ns, record.transfer_ns, record.seq, epoch_ns];
    numbers.into_iter().flatten().all(|number| i64::try_from(number).is_ok())
}

/// Appends the records to the file as a row group.
pub(super) fn write_group<W: Write + Send>(writer: &mut SerializedFileWriter<W>, records: &[Record]) -> Result<()> {
    let mut columns = Columns::of(writer)?;
    let mut caches = TextCaches::default();
    for record in records {
        columns.next = 0;
        write_fields(record, &mut caches, &mut columns);
    }
    let mut group = writer.next_row_group()?;
    for column in &columns.columns {
        let Some(mut out) = group.next_column()? else {
            return Err(ParquetError::General("there are more columns than the schema has".to_owned()));
        };
        column.write(&mut out)?;
        out.close()?;
    }
    group.close().map(|_| ())
}

/// Known values, and for each row whether it has one.
struct Column {
    values: Values,
    levels: Vec<i16>,
}

enum Values {
    Flags(Vec<bool>),
    Small(Vec<i32>),
    Integers(Vec<i64>),
    Decimals(Vec<FixedLenByteArray>),
    Texts(Vec<ByteArray>),
}

impl Column {
    fn write(&self, out: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let levels = Some(self.levels.as_slice());
        match &self.values {
            Values::Flags(values) => out.typed::<BoolType>().write_batch(values, levels, None),
            Values::Small(values) => out.typed::<Int32Type>().write_batch(values, levels, None),
            Values::Integers(values) => out.typed::<Int64Type>().write_batch(values, levels, None),
            Values::Decimals(values) => out.typed::<FixedLenByteArrayType>().write_batch(values, levels, None),
            Values::Texts(values) => out.typed::<ByteArrayType>().write_batch(values, levels, None),
        }
        .map(|_| ())
    }

    fn push_number(&mut self, value: Option<u64>) {
        let is_known = match (&mut self.values, value) {
            (Values::Small(values), Some(value)) => i32::try_from(value).map(|value| values.push(value)).is_ok(),
            (Values::Integers(values), Some(value)) => i64::try_from(value).map(|value| values.push(value)).is_ok(),
            (Values::Decimals(values), Some(value)) => {
                // Two's complement, big-endian: a ninth byte keeps the sign clear.
                values.push([&[0][..], &value.to_be_bytes()].concat().into());
                true
            }
            _ => false,
        };
        self.levels.push(i16::from(is_known));
    }

    fn push_text(&mut self, value: Option<&[u8]>) {
        if let (Values::Texts(values), Some(value)) = (&mut self.values, value) {
            // Neighbours often are the same, and share their bytes.
            let last = values.last().filter(|last| last.data() == value).cloned();
            values.push(last.unwrap_or_else(|| value.to_vec().into()));
            self.levels.push(1);
        } else {
            self.levels.push(0);
        }
    }

    fn push_flag(&mut self, value: Option<bool>) {
        if let (Values::Flags(values), Some(value)) = (&mut self.values, value) {
            values.push(value);
            self.levels.push(1);
        } else {
            self.levels.push(0);
        }
    }
}

/// All columns, and which one the next field goes to.
struct Columns {
    columns: Vec<Column>,
    next: usize,
}

impl Columns {
    fn of<W: Write + Send>(writer: &SerializedFileWriter<W>) -> Result<Self> {
        use parquet::basic::Type;
        let column = |column: &parquet::schema::types::ColumnDescPtr| {
            let values = match column.physical_type() {
                Type::BOOLEAN => Values::Flags(Vec::new()),
                Type::INT32 => Values::Small(Vec::new()),
                Type::INT64 => Values::Integers(Vec::new()),
                Type::FIXED_LEN_BYTE_ARRAY => Values::Decimals(Vec::new()),
                Type::BYTE_ARRAY => Values::Texts(Vec::new()),
                other => return Err(ParquetError::General(format!("no column is of type {other}"))),
            };
            Ok(Column { values, levels: Vec::new() })
        };
        let columns = writer.schema_descr().columns().iter().map(column).collect::<Result<_>>()?;
        Ok(Self { columns, next: 0 })
    }

    /// Fields come in the order of the columns.
    fn column(&mut self) -> Option<&mut Column> {
        let column = self.columns.get_mut(self.next);
        self.next += 1;
        column
    }
}

impl Cells for Columns {
    fn number(&mut self, _: Name, value: Option<u64>) {
        self.column().into_iter().for_each(|column| column.push_number(value));
    }

    fn text(&mut self, _: Name, value: Option<&[u8]>) {
        self.column().into_iter().for_each(|column| column.push_text(value));
    }

    fn flag(&mut self, _: Name, value: Option<bool>) {
        self.column().into_iter().for_each(|column| column.push_flag(value));
    }

    fn lsn(&mut self, name: Name, value: Option<Lsn>) {
        self.number(name, value.map(|lsn| lsn.0));
    }
}
