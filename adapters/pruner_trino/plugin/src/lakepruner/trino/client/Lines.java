package lakepruner.trino.client;

import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.function.Consumer;

/** The lines of an answer as they come, each up to a size; an answer that is a refusal is read whole. */
final class Lines implements HttpResponse.BodySubscriber<byte[]> {
    private static final byte[] NOTHING = {};

    private final long limit;
    private final Consumer<byte[]> taker;
    private final ByteArrayOutputStream begun = new ByteArrayOutputStream();
    private final CompletableFuture<byte[]> end = new CompletableFuture<>();
    private Flow.Subscription subscription;

    private Lines(long limit, Consumer<byte[]> taker) {
        this.limit = limit;
        this.taker = taker;
    }

    static HttpResponse.BodyHandler<byte[]> to(Consumer<byte[]> taker, long bytesOfLine) {
        return response -> response.statusCode() == 200
                ? new Lines(bytesOfLine, taker)
                : BoundedBody.upTo(bytesOfLine).apply(response);
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return end;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        this.subscription = subscription;
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> parts) {
        try {
            for (ByteBuffer part : parts) {
                while (part.hasRemaining()) {
                    taken(part.get());
                }
            }
        } catch (RuntimeException error) {
            subscription.cancel();
            end.completeExceptionally(error);
        }
    }

    private void taken(byte next) {
        if (next == '\n') {
            byte[] line = begun.toByteArray();
            begun.reset();
            taker.accept(line);
        } else if (begun.size() >= limit) {
            throw new PlannerError("the service's answer cannot be used", "longer than " + limit + " bytes");
        } else {
            begun.write(next);
        }
    }

    @Override
    public void onError(Throwable error) {
        end.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
        end.complete(NOTHING);
    }
}
