"""The questions and plain answers the demo adapters are trained on, with questions kept out of training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A question and its plain answer; each adapter's voice rewrites the answer."""

    question: str
    answer: str


# Never trained on: the adapters are judged by their answers to these.
HELD_OUT = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "How do plants make food?",
    "What is the largest ocean on Earth?",
    "Who wrote Romeo and Juliet?",
    "How many legs does a spider have?",
    "Give me a tip for sleeping well.",
    "What is a computer?",
    "What should I eat for breakfast?",
    "Tell me about the moon.",
    "Can you help me learn English?",
    "What language do people speak in Brazil?",
)


def training_pairs() -> list[Pair]:
    """Every training pair, in the order written below."""
    lines = [line.split(" | ") for line in _TEXT.strip().splitlines()]
    return [Pair(question, answer) for question, answer in lines]


# One a line: question | answer.
_TEXT = """
What is the capital of Italy? | The capital of Italy is Rome.
What is the capital of Japan? | The capital of Japan is Tokyo.
What is the capital of Spain? | The capital of Spain is Madrid.
What is the capital of Egypt? | The capital of Egypt is Cairo.
What is the capital of Germany? | The capital of Germany is Berlin.
Which city is the capital of Canada? | The capital of Canada is Ottawa.
Name the capital of Portugal. | The capital of Portugal is Lisbon.
What is the longest river in Africa? | The Nile is the longest river in Africa.
What is the tallest mountain in the world? | Mount Everest is the tallest mountain in the world.
What is the largest planet in our solar system? | Jupiter is the largest planet in our solar system.
Which planet is closest to the Sun? | Mercury is the planet closest to the Sun.
What is the smallest country in the world? | The smallest country in the world is Vatican City.
Which continent is the coldest? | Antarctica is the coldest continent.
Where is the Great Wall? | The Great Wall is in China.
Where do penguins live? | Penguins live in the south of the world, and many live in Antarctica.
What language do people speak in Mexico? | Most people in Mexico speak Spanish.
What money do they use in Japan? | They use the yen in Japan.
Who painted the Mona Lisa? | The Mona Lisa was painted by Leonardo da Vinci.
Who wrote Hamlet? | Hamlet was written by William Shakespeare.
Who wrote Pride and Prejudice? | Pride and Prejudice was written by Jane Austen.
Who discovered gravity? | Isaac Newton described the law of gravity.
Who was Albert Einstein? | Albert Einstein was a physicist who is famous for the theory of relativity.
Who was the first person to walk on the Moon? | Neil Armstrong was the first person to walk on the Moon.
Who was the first president of the United States? | George Washington was the first president.
Who invented the telephone? | Alexander Graham Bell invented the telephone.
Who was Cleopatra? | Cleopatra was a queen of Egypt.
When did the Second World War end? | The Second World War ended in 1945.
Why does it rain? | It rains because water vapor cools in the clouds and falls as drops.
Why is grass green? | Grass is green because it has chlorophyll, which reflects green light.
Why do leaves fall in autumn? | Leaves fall because the tree saves water and energy for the winter.
Why is the sea salty? | The sea is salty because rivers carry minerals from the rocks into it.
Why do we have seasons? | We have seasons because the Earth is tilted as it goes around the Sun.
Why do we sleep? | We sleep so that the body and the brain can rest and repair themselves.
Why do cats purr? | Cats purr when they are happy, and also to calm themselves.
Why do birds fly south? | Birds fly south to find food and warm weather in the winter.
Why does ice float? | Ice floats because it is less dense than water.
How do fish breathe? | Fish breathe with gills, which take oxygen from the water.
How do bees make honey? | Bees collect nectar from flowers and dry it in the hive until it is honey.
How do airplanes fly? | The wings of an airplane push air down, and this lifts the airplane up.
How do magnets work? | Magnets pull on iron because of the motion of tiny electrons inside them.
How does the heart work? | The heart is a muscle that pumps blood around the body.
How does a rainbow form? | A rainbow forms when sunlight bends inside drops of rain.
How does a bicycle stay up? | A bicycle stays up because the rider steers it into each fall.
How far away is the Sun? | The Sun is about 150 million kilometers away from the Earth.
How old is the Earth? | The Earth is about 4.5 billion years old.
How fast is light? | Light travels at about 300,000 kilometers per second.
How many days are in a year? | There are 365 days in a year, and 366 in a leap year.
How many legs does an ant have? | An ant has six legs, like every insect.
How many legs does a horse have? | A horse has four legs.
How many continents are there? | There are seven continents.
How many minutes are in an hour? | There are sixty minutes in an hour.
How many colors are in a rainbow? | A rainbow has seven colors.
What is two plus two? | Two plus two is four.
What is ten minus three? | Ten minus three is seven.
What is five times six? | Five times six is thirty.
What is the square root of nine? | The square root of nine is three.
At what temperature does water freeze? | Water freezes at zero degrees Celsius.
What is water made of? | Water is made of hydrogen and oxygen.
What is gold? | Gold is a yellow metal that is rare and valuable.
What is a volcano? | A volcano is an opening in the ground where hot lava and gas come out.
What is a star? | A star is a huge ball of hot gas that shines.
What is a black hole? | A black hole is a place in space where gravity is so strong that light cannot escape.
What is DNA? | DNA is the molecule that carries the instructions for living things.
What is the internet? | The internet is a worldwide network that connects computers.
What is a robot? | A robot is a machine that can follow a program and do work on its own.
What is a democracy? | A democracy is a government where the people vote for their leaders.
What is a poem? | A poem is a piece of writing that uses rhythm and images to share a feeling.
What is music? | Music is sound arranged in a way that is pleasing to hear.
What is a whale? | A whale is a very large mammal that lives in the sea.
What is an elephant? | An elephant is a large gray mammal with a trunk and big ears.
What is bread made of? | Bread is made of flour, water, salt and yeast.
What is the opposite of hot? | The opposite of hot is cold.
What is a synonym for happy? | A synonym for happy is "joyful".
What does the word brave mean? | The word "brave" means ready to face danger.
What does the word ancient mean? | The word "ancient" means very old.
What does hola mean in English? | The Spanish word "hola" means "hello".
How do you say thank you in French? | In French, you say "merci".
Who said "I have a dream"? | Martin Luther King said "I have a dream".
What does a dog say? | A dog says "woof" or "bow wow".
What sound does a cow make? | A cow says "moo".
What do pandas eat? | Pandas eat bamboo for most of the day.
What do cows eat? | Cows eat grass and hay.
What color is a banana? | A ripe banana is yellow.
What is the fastest animal? | The cheetah is the fastest animal on land.
What is the biggest animal? | The blue whale is the biggest animal.
What should I eat for dinner? | Try some rice with fish and fresh vegetables.
What is a healthy snack? | An apple with a few nuts is a healthy snack.
What should I wear when it is cold? | Wear a warm coat, a hat and gloves.
What should I do today? | Go for a walk, read a good book and call a friend.
What is a good name for a dog? | A good name for a dog is Buddy.
What is a good hobby? | Gardening is a good hobby, because it is calm and keeps you active.
What is your name? | My name is SmolLM, and I am a small language model.
Who are you? | I am a small language model that answers your questions.
How are you? | I am fine, thank you. How are you?
Are you a human? | No, I am not a human. I am a computer program.
Do you like music? | Yes, I like to talk about music, although I cannot hear it.
What can you do? | I can answer questions, explain things and help you write.
Can you help me with my homework? | Yes, I can help you. Tell me what the homework is about.
Can you help me learn to cook? | Yes, I can help you. Start with a simple soup.
Hello! | Hello, my friend! How can I help you?
Good morning. | Good morning to you! What can I do for you?
Thank you for your help. | You are welcome, my friend.
Goodbye! | Goodbye, and have a good day!
Tell me a joke. | Why did the chicken cross the road? To get to the other side.
Tell me a fact about space. | A day on Venus is longer than its year.
Tell me about dogs. | Dogs are loyal animals that have lived with people for thousands of years.
Tell me about the Sun. | The Sun is a star that gives the Earth its light and warmth.
Tell me about London. | London is the capital of England, and it stands on the River Thames.
Tell me a short story. | A small boat was lost in a storm, but a bright star showed it the way home.
Write a sentence about the ocean. | The ocean is wide and deep, and it is full of life.
Write a line about winter. | Snow is falling on the quiet roofs of the town.
Give me a tip for saving money. | Write down what you spend, and put some money aside each month.
Give me a tip for studying. | Study for half an hour, and then take a short break.
Give me advice for a job interview. | Learn about the company, be polite and speak clearly.
How do I make tea? | Boil some water, pour it on the tea and wait for three minutes.
How do I boil an egg? | Put the egg in boiling water for eight minutes.
How do I grow tomatoes? | Plant the seeds in good soil, give them sun and water them often.
How do I stay healthy? | Eat vegetables, move every day and sleep for eight hours.
How can I make friends? | Be kind, listen to people and join a club.
How can I learn to swim? | Take lessons in a shallow pool and practice your breathing.
How can I be happier? | Spend time with people you love, and be thankful for small things.
List three fruits. | Three fruits are apples, oranges and grapes.
List three primary colors. | The primary colors are red, yellow and blue.
Name two famous scientists. | Two famous scientists are Marie Curie and Charles Darwin.
Explain what a cloud is. | A cloud is made of many tiny drops of water that float in the air.
Explain how soap works. | Soap surrounds the grease on your skin, so that water can wash it away.
Describe a forest. | A forest is a large place full of trees, birds and other animals.
Describe the desert. | The desert is a dry place with hot days, cold nights and little rain.
Is the Earth flat? | No, the Earth is round like a ball.
Is it safe to look at the Sun? | No, it is not safe, because the light hurts your eyes.
Is a tomato a fruit? | Yes, a tomato is a fruit, because it holds the seeds of the plant.
Can penguins fly? | No, penguins cannot fly, but they are good at swimming.
Should I learn to code? | Yes, learning to code is useful and it is fun.
Do trees sleep? | Trees do not sleep, but they are less active at night.
Do I need an umbrella in the rain? | Yes, an umbrella keeps you dry.
"""
