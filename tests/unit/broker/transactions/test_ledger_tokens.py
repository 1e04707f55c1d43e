from goqueue.broker.transactions.ledger_tokens import LedgerTokens, place_of
from goqueue.queue import Owner
from tests.unit.broker.cluster.apart import led_apart

ONE, OTHER = Owner(1, 0, "one"), Owner(2, 0, "other")


def test_a_token_is_good_until_a_transaction_of_its_producer_ends():
    with led_apart() as apart:
        apart.publish("b", "x", partition=1)
        apart.receive("b")
        ledgers, tokens = apart["b"].queues.ledgers, LedgerTokens()
        ledger = ledgers.find("orders", 1)
        assert ledger is not None
        token, others = tokens.give(ledger, ONE), tokens.give(ledger, OTHER)
        assert (token.topic, token.partition) == place_of(ledger)
        assert tokens.give(ledger, ONE) == token
        tokens.end(ledger, 1)
        assert not tokens.holds(ledgers, ONE, token)
        assert tokens.holds(ledgers, OTHER, others)
        assert tokens.give(ledger, ONE) != token
        ledgers.drop("orders", 1)
        assert not tokens.holds(ledgers, OTHER, others), "another node leads"
