"""Coverage: texts in languages without word lists are not covered, alone or as a large part of a text."""

import pytest

from zyda_flows.tasks.dedup.coverage import is_covered

COVERED = {
    "en": "The committee will meet again in March, and it is not clear whether the plan can be approved before then.",
    "de": "Der Ausschuss trifft sich im März wieder, und es ist nicht klar, ob der Plan bis dahin genehmigt wird.",
    "fr": "Le comité se réunira de nouveau en mars, et on ne sait pas si le projet pourra être approuvé avant.",
    "es": "El comité se reunirá de nuevo en marzo, y no está claro si el plan se puede aprobar antes de esa fecha.",
    "zh": "委员会将于三月再次开会,目前尚不清楚该计划能否在此之前获得批准。",
    "title": "Quarterly Revenue Statement",
    "code": "for index in range(10):\n    print(values[index], end='')\nresult = compute(values)\n",
    "table": "id;value;unit\n1;20;kg\n2;25;kg\n3;31;kg\n",
    "numbers": "1 2 3 4 5",
    "": "",
}
OTHERS = {
    "pt": "A comissão vai reunir-se novamente em março, e não está claro se o plano pode ser aprovado antes dessa data.",
    "it": "La commissione si riunirà di nuovo a marzo e non è chiaro se il piano potrà essere approvato prima.",
    "pl": "Komisja zbierze się ponownie w marcu i nie jest jasne, czy plan może zostać zatwierdzony przed tym terminem.",
    "nl": "De commissie komt in maart weer bijeen en het is niet duidelijk of het plan voor die tijd kan worden goedgekeurd.",
    "ca": "La comissió es tornarà a reunir al març i no és clar si el pla es podrà aprovar abans amb aquests canvis.",
    "gl": "A comisión reunirase de novo en marzo e non está claro se o plan se pode aprobar antes cos cambios da xunta.",
    "sv": "Kommittén träffas igen i mars och det är inte klart om planen kan godkännas innan dess av alla parter.",
    "da": "Udvalget mødes igen i marts, og det er ikke klart, om planen kan godkendes inden da af alle parter.",
    "tr": "Komite mart ayında yeniden toplanacak ve planın o tarihten önce onaylanıp onaylanmayacağı belli değil.",
    "cs": "Výbor se sejde znovu v březnu a není jasné, zda může být plán schválen před tímto datem nebo až po něm.",
    "ro": "Comitetul se va reuni din nou în martie și nu este clar dacă planul poate fi aprobat înainte de această dată.",
    "hu": "A bizottság márciusban ismét összeül, és nem világos, hogy a tervet addig jóvá lehet-e hagyni.",
    "fi": "Valiokunta kokoontuu jälleen maaliskuussa, eikä ole selvää, voidaanko suunnitelma hyväksyä sitä ennen.",
    "vi": "Ủy ban sẽ họp lại vào tháng ba và không rõ liệu kế hoạch có thể được phê duyệt trước thời điểm đó hay không.",
    "id": "Komite akan bertemu lagi pada bulan Maret dan tidak jelas apakah rencana itu dapat disetujui sebelum itu.",
    "sw": "kamati itakutana tena mwezi wa machi na haijulikani kama mpango huo unaweza kupitishwa kabla ya wakati huo wote na wajumbe wa bunge",
    "ru": "Комитет соберётся снова в марте, и неясно, может ли план быть утверждён до этого времени.",
    "ja": "委員会は三月に再び開かれるが、計画がそれまでに承認されるかどうかは明らかではない。",
    "ko": "위원회는 3월에 다시 모일 예정이며, 그 전에 계획이 승인될 수 있을지는 분명하지 않다.",
    "ar": "ستجتمع اللجنة مرة أخرى في شهر مارس وليس من الواضح ما إذا كان يمكن الموافقة على الخطة قبل ذلك.",
    "th": "คณะกรรมการจะประชุมอีกครั้งในเดือนมีนาคม และยังไม่ชัดเจนว่าแผนจะได้รับการอนุมัติก่อนหน้านั้นหรือไม่",
    "el": "Η επιτροπή θα συνεδριάσει ξανά τον Μάρτιο και δεν είναι σαφές αν το σχέδιο μπορεί να εγκριθεί νωρίτερα.",
    "he": "הוועדה תתכנס שוב במרץ ולא ברור אם ניתן לאשר את התוכנית לפני כן.",
    "hi": "समिति मार्च में फिर से बैठक करेगी और यह स्पष्ट नहीं है कि योजना उससे पहले स्वीकृत हो सकती है या नहीं।",
}  # fmt: skip


@pytest.mark.parametrize("name", COVERED)
def test_texts_of_the_five_languages_and_ascii_without_words_are_covered(name):
    assert is_covered(COVERED[name])


@pytest.mark.parametrize("name", OTHERS)
def test_texts_of_other_languages_are_not_covered(name):
    assert not is_covered(OTHERS[name])


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("covered", ["en", "de", "fr", "es", "zh"])
def test_a_third_in_another_language_is_too_much(name, covered):
    parts = [COVERED[covered] + "\n"] * 12
    assert is_covered("".join(parts))
    third = (OTHERS[name] + "\n") * (len("".join(parts).encode()) // len(OTHERS[name].encode()) // 2 + 1)
    assert not is_covered("".join(parts) + third)
    assert not is_covered(third + "".join(parts))


@pytest.mark.parametrize("name", OTHERS)
def test_a_short_quotation_in_another_language_is_covered(name):
    assert is_covered((COVERED["en"] + "\n") * 40 + OTHERS[name])


def test_title_with_accents_and_without_function_words_is_not_covered():
    assert not is_covered("Nejvyšší soud České republiky")


def test_long_text_is_counted_in_batches():
    english = COVERED["en"] + " "
    assert is_covered(english * 25_000)
    assert not is_covered(english * 15_000 + (OTHERS["pl"] + " ") * 10_000)
    assert is_covered(english.replace(" ", "x") * 25_000)


def test_lone_surrogates_are_no_error():
    assert is_covered("\ud800 the house is red")
