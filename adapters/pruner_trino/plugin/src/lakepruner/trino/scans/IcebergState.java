package lakepruner.trino.scans;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.SchemaTableName;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import lakepruner.trino.reflection.Reflection;

/**
 * Which state of an Iceberg table a scan reads: a snapshot, the schema by which it does, and the metadata file that the
 * catalog names.
 *
 * <p>Only a catalog knows which metadata is the newest, and Trino has just asked it; the service may know an older one.
 */
public record IcebergState(Connector connector, ConnectorTransactionHandle transaction, ConnectorSession session) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The snapshot that a table handle is of; empty for another connector's, an empty number for a table without one. */
    static Optional<OptionalLong> snapshot(Object handle) {
        return Reflection.find(handle, "getSnapshotId").map(OptionalLong.class::cast);
    }

    /** {@code snapshot@schema} or {@code snapshot@schema@file} (docs/http.md); a schema never changes once it has a number. */
    Optional<String> of(Object handle) {
        return snapshot(handle)
                .filter(OptionalLong::isPresent)
                .map(id -> id.getAsLong() + "@" + schemaId((String) Reflection.get(handle, "getTableSchemaJson"))
                        + metadataFile(handle).map(file -> "@" + file).orElse(""));
    }

    private static int schemaId(String schema) {
        try {
            JsonNode id = JSON.readTree(schema).path("schema-id");
            if (id.isInt()) {
                return id.asInt();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        throw new IllegalStateException("the schema of the scan has no number");
    }

    /** Data files of the snapshot of a handle, as its summary counts them; empty where that is not to be had. */
    OptionalLong files(Object handle) {
        try {
            Method find = Class.forName("org.apache.iceberg.Table", true, handle.getClass().getClassLoader())
                    .getMethod("snapshot", long.class);
            Object read = find.invoke(table(handle), snapshot(handle).orElseThrow().orElseThrow());
            Map<?, ?> summary = (Map<?, ?>) Reflection.get(read, "summary");
            return OptionalLong.of(Long.parseLong((String) summary.get("total-data-files")));
        } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
            return OptionalLong.empty();
        }
    }

    /** What the transaction has read of the table; where that is not to be had, the service goes by what it knows. */
    private Optional<String> metadataFile(Object handle) {
        try {
            Object current = Reflection.get(Reflection.get(table(handle), "operations"), "current");
            String location = (String) Reflection.get(current, "metadataFileLocation");
            return Optional.of(location.substring(location.lastIndexOf('/') + 1));
        } catch (RuntimeException | LinkageError error) {
            return Optional.empty();
        }
    }

    /** The table as the transaction has read it. */
    private Object table(Object handle) {
        Object metadata = connector.getMetadata(session, transaction);
        return Reflection.invoke(
                Reflection.field(metadata, "delegate").orElse(metadata),
                "getIcebergTable",
                new Class<?>[] {ConnectorSession.class, SchemaTableName.class},
                session,
                Reflection.get(handle, "getSchemaTableName"));
    }
}
