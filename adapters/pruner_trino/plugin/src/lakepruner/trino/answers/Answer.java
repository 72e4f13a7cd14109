package lakepruner.trino.answers;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.trino.spi.connector.ConnectorTableHandle;
import java.util.List;

/**
 * A table of one row, the aggregates of a scan that need no file. It goes to workers as JSON, like the handles of connectors.
 *
 * @param source the wrapped connector's handle of the scan that was answered
 * @param told where the answer comes from, for EXPLAIN
 */
public record Answer(
        @JsonProperty("source") ConnectorTableHandle source,
        @JsonProperty("columns") List<AnswerColumn> columns,
        @JsonProperty("table") String table,
        @JsonProperty("told") String told)
        implements ConnectorTableHandle {
    @Override
    public String toString() {
        return table + ": " + told;
    }
}
