//! Series as Arrow IPC files (feature `arrow`): one row a point, a column `time` and one for each series, units in each
//! field's metadata.

use super::series::points;
use crate::Error;
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use fairspan_sim::results::Results;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

/// Writes the series of one run to `path`.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, title: &str, results: &Results) -> Result<(), Error> {
    let points = points(results);
    // A point tells of the interval that ends with it.
    let time = (1..=points).map(|i| i as f64 * results.series_interval_s);
    let mut fields = vec![field("time", "s")];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Float64Array::from_iter_values(time))];
    for series in &results.series {
        fields.push(field(&series.name, &series.unit));
        let values = (0..points).map(|i| series.values.get(i).copied());
        columns.push(Arc::new(Float64Array::from_iter(values)));
    }
    let about = [("title", title.to_owned()), ("seed", results.seed.to_string())];
    let about: HashMap<String, String> = about.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, about));
    let write = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let mut writer = FileWriter::try_new(BufWriter::new(File::create(path)?), &schema)?;
        writer.write(&batch)?;
        writer.finish()?;
        Ok(())
    };
    write().map_err(|error| Error::write(path, std::io::Error::other(error)))
}

fn field(name: &str, unit: &str) -> Field {
    let unit = HashMap::from([("unit".to_owned(), unit.to_owned())]);
    Field::new(name, DataType::Float64, true).with_metadata(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::series::tests::results;
    use arrow_array::Array;
    use arrow_ipc::reader::FileReader;

    #[test]
    fn what_is_written_is_read_back_with_its_units() {
        let results = results(&[("link a queue", &[1.0, 2.0, 3.0]), ("link b queue", &[4.0, 5.0])]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series.arrow");
        write(&path, "a test", &results).unwrap();
        let reader = FileReader::try_new(File::open(&path).unwrap(), None).unwrap();
        let schema = reader.schema();
        assert_eq!(schema.metadata()["seed"], "7");
        assert_eq!(schema.field(0).metadata()["unit"], "s");
        assert_eq!(schema.field(1).metadata()["unit"], "bytes");
        let batch = reader.into_iter().next().unwrap().unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (3, 3));
        let column = |i: usize| batch.column(i).as_any().downcast_ref::<Float64Array>().unwrap().clone();
        assert_eq!(column(0).values().to_vec(), [0.5, 1.0, 1.5]);
        assert_eq!(column(1).values().to_vec(), [1.0, 2.0, 3.0]);
        assert!(column(2).is_null(2), "a series that ended earlier has no value there");
    }
}
