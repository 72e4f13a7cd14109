package lakepruner.trino.answers;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.trino.spi.block.Block;
import io.trino.spi.block.BlockBuilder;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.type.Type;
import io.trino.spi.type.TypeUtils;

/**
 * One aggregate of an {@link Answer}.
 *
 * @param name what is asked for, with its number, so that no two columns are equal
 * @param value as {@link Values} has it; null for NULL
 */
public record AnswerColumn(
        @JsonProperty("name") String name, @JsonProperty("type") Type type, @JsonProperty("value") String value)
        implements ColumnHandle {
    Block block() {
        BlockBuilder builder = type.createBlockBuilder(null, 1);
        TypeUtils.writeNativeValue(type, builder, value == null ? null : Values.of(type, value));
        return builder.build();
    }

    @Override
    public String toString() {
        return name + " = " + value;
    }
}
