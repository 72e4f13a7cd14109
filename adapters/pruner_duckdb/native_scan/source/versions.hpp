//! What a glob tells DuckDB of each file, and a list of names does not: its version.
//!
//! By these DuckDB trusts the footers that it keeps where the setting `parquet_metadata_cache` is on. Without them it
//! opens every file of a list for a count(*).

#pragma once

#include "duckdb/common/open_file_info.hpp"

namespace duckdb {
class ClientContext;
}

namespace pruner {

using FileList = duckdb::vector<duckdb::OpenFileInfo>;

//! Whether DuckDB keeps the footers of files for this connection.
bool KeepsFooters(duckdb::ClientContext &context);

//! The same files, each as a listing of its folder by DuckDB has it now. Files of stores stay as they are, for which that
//! would be requests, and so do those that are gone.
duckdb::shared_ptr<const FileList> WithVersions(duckdb::ClientContext &context, const FileList &files);

} // namespace pruner
