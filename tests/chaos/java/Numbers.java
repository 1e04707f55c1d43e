// Writes and reads numbers with Apache Kafka's Java clients until its input ends.
//
//     java -cp 'LIBRARIES/*' Numbers.java SERVERS TOPIC
//
// Each error that an application would see is a line; the last line is how many were written, and
// how many different ones were read.
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Numbers {
    static final long PAUSE_MS = 20;
    static final long LIMIT_MS = 60_000;
    static final Set<Integer> seen = ConcurrentHashMap.newKeySet();
    static final AtomicBoolean isEnding = new AtomicBoolean();
    static final AtomicBoolean isReadToEnd = new AtomicBoolean();

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String topic = arguments[1];
        Thread input = new Thread(Numbers::waitForEnd);
        input.setDaemon(true);
        input.start();
        Thread reading = new Thread(() -> read(servers, topic));
        reading.start();
        int sent = write(servers, topic);
        long limit = System.currentTimeMillis() + LIMIT_MS;
        while (seen.size() < sent && System.currentTimeMillis() < limit) {
            Thread.sleep(PAUSE_MS);
        }
        isReadToEnd.set(true);
        reading.join();
        show(sent + " " + seen.size());
    }

    static void waitForEnd() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException error) {
            show("input: " + error);
        }
        isEnding.set(true);
    }

    static int write(String servers, String topic) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "acks", "all");
        int sent = 0;
        try (var producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (; !isEnding.get(); sent++) {
                var record = new ProducerRecord<String, String>(topic, Integer.toString(sent));
                producer.send(record, (place, error) -> {
                    if (error != null) {
                        show("produce: " + error);
                    }
                });
                Thread.sleep(PAUSE_MS);
            }
        }
        return sent;
    }

    static void read(String servers, String topic) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "group.id", "g-java", "auto.offset.reset", "earliest");
        try (var consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!isReadToEnd.get()) {
                try {
                    for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                        seen.add(Integer.parseInt(each.value()));
                    }
                } catch (RuntimeException error) {
                    show("poll: " + error);
                }
            }
        }
    }

    static synchronized void show(String line) {
        System.out.println(line);
    }
}
