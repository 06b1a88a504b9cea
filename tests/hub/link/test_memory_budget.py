"""The memory budget: shares, and which peer is evicted."""

import pytest

from hub.link.memory_budget import PATIENCE_S, Budget

MIB = 1 << 20


@pytest.fixture
def budget():
    return Budget(100)


def held(budget, principal, *amounts, give_up=None):
    accounts = [budget.account(principal, give_up) for _ in amounts]
    assert [account.take(amount, 0.0) for account, amount in zip(accounts, amounts, strict=True)] == [True] * len(
        amounts
    )
    return accounts


@pytest.mark.covers("I-5")
def test_a_connection_gets_a_quarter(budget):
    account = budget.account("me")
    assert account.take(20, 0)
    assert not account.take(6, 0)
    assert account.take(5, 0)
    account.give(25)
    assert (budget.used, budget.highest, budget.refused) == (0, 25, 1)
    assert (budget._holders, budget._by_principal) == ({}, {})


@pytest.mark.covers("I-5", "I-2")
def test_a_principal_gets_three_quarters(budget):
    held(budget, "me", 25, 25, 25)
    assert not budget.account("me").take(1, 0)
    (other,) = held(budget, "other", 25)
    assert not budget.account("third").take(1, 0), "all of it is used"
    other.close()
    assert budget.account("third").take(25, 0)


def test_closing_gives_all_back_for_good(budget):
    (account,) = held(budget, "me", 25)
    account.close()
    account.give(25)
    account.close()
    assert (account.take(1, 0), budget.used, budget.released) == (False, 0, 25)


def test_an_account_keeps_its_name_while_it_holds_something(budget):
    account = budget.account()
    account.belongs_to("me")
    assert account.take(1, 0)
    account.belongs_to("other")
    assert (account.principal, account.used) == ("me", 1)


@pytest.mark.covers("I-5", "F-H-11")
def test_who_is_late_gives_way_the_latest_first():
    budget, gone = Budget(100 * MIB), []
    accounts = {}
    for at, name in enumerate(("slow", "stalled", "quick", "patient")):
        account = budget.account("me", give_up=lambda name=name: gone.append(name))
        accounts[name] = account
        assert account.take(18 * MIB, 0)
        if name != "patient":  # nothing waits for that one's peer
            account.sends.start_wait(float(at))
    now = 20.0
    accounts["slow"].sends.on_moved(12 * MIB, 12.0)
    accounts["quick"].sends.on_moved(20 * MIB, now)
    newcomer = budget.account("me", give_up=lambda: gone.append("newcomer"))
    newcomer.sends.start_wait(now)
    assert newcomer.take(18 * MIB, now)
    assert (gone, budget.evicted) == (["stalled"], 1)
    assert newcomer.take(7 * MIB, now)
    assert gone == ["stalled", "slow"]
    assert not budget.account("me").take(25 * MIB, now), "nobody is late any more"
    accounts["quick"].sends.start_wait(now)
    assert not budget.account("me").take(25 * MIB, now + PATIENCE_S), "not yet"
    assert budget.account("me").take(18 * MIB, now + PATIENCE_S + 0.01)
    assert gone == ["stalled", "slow", "newcomer"] or gone == ["stalled", "slow", "quick"]


@pytest.mark.covers("I-2")
def test_nobody_else_gives_way_for_who_has_his_share(budget):
    gone = []
    (other,) = held(budget, "other", 5, give_up=lambda: gone.append("other"))
    other.reads.start_wait(0.0)
    held(budget, "me", 25, 25, 25)
    assert not budget.account("me").take(1, 100.0)
    assert gone == []
    assert budget.account("third").take(22, 100.0), "the others' share"
    assert gone == ["other"]


@pytest.mark.covers("I-5")
def test_who_asks_does_not_push_out_others_less_late(budget):
    accounts = held(budget, "me", 25, 25, 20, give_up=lambda: pytest.fail("it is less late"))
    for account, began in zip(accounts, (9.0, 8.0, 1.0), strict=True):
        account.sends.start_wait(began)
    assert not accounts[2].take(6, 20.0)
