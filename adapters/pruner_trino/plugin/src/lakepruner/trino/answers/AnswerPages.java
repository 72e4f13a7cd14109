package lakepruner.trino.answers;

import io.trino.spi.Page;
import io.trino.spi.block.Block;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.FixedPageSource;
import java.util.Arrays;
import java.util.List;

/** The one row of an {@link Answer}, for a worker. */
public final class AnswerPages {
    private AnswerPages() {}

    public static boolean isAsked(Object[] arguments) {
        return Arrays.stream(arguments).anyMatch(Answer.class::isInstance);
    }

    /** The columns among the arguments of {@code createPageSource}, in their order. */
    public static ConnectorPageSource of(Object[] arguments) {
        Block[] blocks = Arrays.stream(arguments)
                .filter(List.class::isInstance)
                .flatMap(columns -> ((List<?>) columns).stream())
                .map(column -> ((AnswerColumn) column).block())
                .toArray(Block[]::new);
        return new FixedPageSource(List.of(new Page(1, blocks)));
    }
}
