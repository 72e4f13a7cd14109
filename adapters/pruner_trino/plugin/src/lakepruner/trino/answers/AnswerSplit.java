package lakepruner.trino.answers;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.trino.spi.connector.ConnectorSplit;

/** The only split of an {@link Answer}, which says all that is in it. */
public record AnswerSplit(@JsonProperty("told") String told) implements ConnectorSplit {
    @Override
    public long getRetainedSizeInBytes() {
        return 64 + 2L * told.length();
    }
}
